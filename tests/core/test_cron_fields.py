from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weftjobs._cron_fields import CronFields, parse_fields
from weftjobs.errors import InvalidScheduleError

SECONDS = MINUTES = range(60)
HOURS = range(24)
DAYS = range(1, 32)
MONTHS = range(1, 13)
WEEKDAYS = range(7)


def mask(values: Iterable[int]) -> int:
    return sum(1 << value for value in set(values))


def fields(
    seconds: Iterable[int] = (0,),
    minutes: Iterable[int] = MINUTES,
    hours: Iterable[int] = HOURS,
    days: Iterable[int] = DAYS,
    months: Iterable[int] = MONTHS,
    weekdays: Iterable[int] = WEEKDAYS,
    either_day: bool = False,
) -> CronFields:
    return CronFields(
        mask(seconds),
        mask(minutes),
        mask(hours),
        mask(days),
        mask(months),
        mask(weekdays),
        either_day,
    )


def refusal(expression: str) -> InvalidScheduleError:
    with pytest.raises(InvalidScheduleError) as caught:
        parse_fields(expression)
    assert caught.value.reason == "invalid"
    assert str(caught.value).startswith("cron: ")
    assert len(str(caught.value)) <= 500
    assert caught.value.fix.endswith(".")
    return caught.value


GOOD = {
    "* * * * *": fields(),
    "? ? ? ? ?": fields(),
    "* * * * * *": fields(seconds=SECONDS),
    "30 * * * * *": fields(seconds=[30]),
    "5 4 3 2 1 0": fields([5], [4], [3], [2], [1], [0], either_day=True),
    "5 * * * *": fields(minutes=[5]),
    "05 007 * * *": fields(minutes=[5], hours=[7]),
    "000000005 * * * *": fields(minutes=[5]),
    "0 * * * *": fields(minutes=[0]),
    "59 23 31 12 *": fields(minutes=[59], hours=[23], days=[31], months=[12]),
    "9-17 * * * *": fields(minutes=range(9, 18)),
    "9-9 * * * *": fields(minutes=[9]),
    "0-59 0-23 1-31 1-12 0-7": fields(either_day=True),
    "*/15 * * * *": fields(minutes=[0, 15, 30, 45]),
    "*/7 * * * *": fields(minutes=range(0, 60, 7)),
    "*/1 * * * *": fields(),
    "*/59 */23 * * *": fields(minutes=[0, 59], hours=[0, 23]),
    "* * */31 */12 *": fields(days=[1], months=[1]),
    "* * * * */7": fields(weekdays=[0]),
    "50/5 * * * *": fields(minutes=[50, 55]),
    "5/05 * * * *": fields(minutes=range(5, 60, 5)),
    "10-30/10 * * * *": fields(minutes=[10, 20, 30]),
    "10-39/10 * * * *": fields(minutes=[10, 20, 30]),
    "10-15/59 * * * *": fields(minutes=[10]),
    "1,2,3 * * * *": fields(minutes=[1, 2, 3]),
    "3,1,3,1-2 * * * *": fields(minutes=[1, 2, 3]),
    "1,20-22,*/30 * * * *": fields(minutes=[0, 1, 20, 21, 22, 30]),
    "*,5 ?,5 * * *": fields(),
    "* * * jan,FEB,Mar *": fields(months=[1, 2, 3]),
    "* * * oct-dec *": fields(months=[10, 11, 12]),
    "* * * 10-dec/2 *": fields(months=[10, 12]),
    "* * * nov/1 *": fields(months=[11, 12]),
    "* * * * 7": fields(weekdays=[0]),
    "* * * * sun": fields(weekdays=[0]),
    "* * * * 0-7": fields(),
    "* * * * 5-7": fields(weekdays=[5, 6, 0]),
    "* * * * fri-sun": fields(weekdays=[5, 6, 0]),
    "* * * * mon-SUN": fields(),
    "* * * * 1-sun": fields(),
    "* * * * sun-sun": fields(weekdays=[0]),
    "* * * * 0-sun": fields(weekdays=[0]),
    "* * * * 7-sun": fields(weekdays=[0]),
    "* * * * sun-tue": fields(weekdays=[0, 1, 2]),
    "* * * * sun-7/7": fields(weekdays=[0]),
    "* * * * mon-sun/3": fields(weekdays=[1, 4, 0]),
    "* * * * 5/2": fields(weekdays=[5, 0]),
    "* * * * sat/1": fields(weekdays=[6, 0]),
    "* * * * MoN-fRi": fields(weekdays=[1, 2, 3, 4, 5]),
    "* * 13 * fri": fields(days=[13], weekdays=[5], either_day=True),
    "* * */2 * mon": fields(days=range(1, 32, 2), weekdays=[1], either_day=True),
    "* * *,1 * mon": fields(weekdays=[1], either_day=True),
    "* * 13 * ?": fields(days=[13]),
    "* * ? * fri": fields(weekdays=[5]),
    "0 0 29 2 *": fields(minutes=[0], hours=[0], days=[29], months=[2]),
    "0 0 31 4,5 *": fields(minutes=[0], hours=[0], days=[31], months=[4, 5]),
    "0 0 31 2 mon": fields([0], [0], [0], [31], [2], [1], either_day=True),
    "  *   * \t *\t\t* * ": fields(),
    "\t@daily ": fields(minutes=[0], hours=[0]),
    "@yearly": fields(minutes=[0], hours=[0], days=[1], months=[1]),
    "@annually": fields(minutes=[0], hours=[0], days=[1], months=[1]),
    "@monthly": fields(minutes=[0], hours=[0], days=[1]),
    "@weekly": fields(minutes=[0], hours=[0], weekdays=[0]),
    "@midnight": fields(minutes=[0], hours=[0]),
    "@HOURLY": fields(minutes=[0]),
}


@pytest.mark.parametrize("expression", GOOD, ids=lambda text: ascii(text)[:40])
def test_the_grammar(expression: str) -> None:
    """C1, C2: what an expression matches in each field."""
    assert parse_fields(expression) == GOOD[expression]


PLAIN_FIX = "The field takes "
WIDER_FIX = "Use weftjobs.Croniter, which reads L, W, # and hashes."
COMMA_FIX = "Take out the extra comma."
STEP_FIX = "Write a whole number from 1 to 59 behind the '/'."

# The expression, the field that is named with the text shown, and the fix.
BAD_FIELDS = [
    ("60 * * * * *", "second: '60'", PLAIN_FIX + "0-59"),
    ("60 * * * *", "minute: '60'", PLAIN_FIX + "0-59"),
    ("* 24 * * *", "hour: '24'", PLAIN_FIX + "0-23"),
    ("* * 0 * *", "day of month: '0'", PLAIN_FIX + "1-31"),
    ("* * 32 * *", "day of month: '32'", PLAIN_FIX + "1-31"),
    ("* * * 0 *", "month: '0'", PLAIN_FIX + "1-12 or jan-dec"),
    ("* * * 13 *", "month: '13'", PLAIN_FIX + "1-12 or jan-dec"),
    ("* * * * 8", "day of week: '8'", PLAIN_FIX + "0-7 or sun-sat"),
    ("0 0 1 1 * 2030", "day of week: '2030'", PLAIN_FIX),
    ("-5 * * * *", "minute: '-5'", PLAIN_FIX),
    ("5- * * * *", "minute: '5-'", PLAIN_FIX),
    ("1-2-3 * * * *", "minute: '1-2-3'", PLAIN_FIX),
    ("*-5 * * * *", "minute: '*-5'", PLAIN_FIX),
    ("5-* * * * *", "minute: '5-*'", PLAIN_FIX),
    ("*5 * * * *", "minute: '*5'", PLAIN_FIX),
    ("** * * * *", "minute: '**'", PLAIN_FIX),
    ("+5 * * * *", "minute: '+5'", PLAIN_FIX),
    ("1.5 * * * *", "minute: '1.5'", PLAIN_FIX),
    ("1_0 * * * *", "minute: '1_0'", PLAIN_FIX),
    ("0x5 * * * *", "minute: '0x5'", PLAIN_FIX),
    ("5; * * * *", "minute: '5;'", PLAIN_FIX),
    ("jan * * * *", "minute: 'jan'", PLAIN_FIX),
    ("* * mon * *", "day of month: 'mon'", PLAIN_FIX),
    ("* * * mon *", "month: 'mon'", PLAIN_FIX),
    ("* * * * jan", "day of week: 'jan'", PLAIN_FIX),
    ("* * * january *", "month: 'january'", PLAIN_FIX),
    ("* * * * tues", "day of week: 'tues'", PLAIN_FIX),
    ("/5 * * * *", "minute: '/5'", PLAIN_FIX),
    ("?/5 * * * *", "minute: '?/5'", PLAIN_FIX),
    ("1,60 * * * *", "minute: '1,60'", PLAIN_FIX),
    ("٣ * * * *", "minute: '٣'", PLAIN_FIX),
    ("\uff15 * * * *", "minute: '\uff15'", PLAIN_FIX),
    ("² * * * *", "minute: '²'", PLAIN_FIX),
    ("*/٣ * * * *", "minute: '*/٣'", STEP_FIX),
    ("* * * \uff4aan *", "month: '\uff4aan'", PLAIN_FIX),
    ("* * * * \u017fun", "day of week: '\u017fun'", PLAIN_FIX),
    ("5\n * * * *", r"minute: '5\n'", PLAIN_FIX),
    ("* * * * *\n", r"day of week: '*\n'", PLAIN_FIX),
    ("* * * * *\u00a0", r"day of week: '*\xa0'", PLAIN_FIX),
    ("* * * * \u2003*", r"day of week: '\u2003*'", PLAIN_FIX),
    ("*\x0b* * * * *", r"minute: '*\x0b*'", PLAIN_FIX),
    (", * * * *", "minute: ','", COMMA_FIX),
    ("1,,2 * * * *", "minute: '1,,2'", COMMA_FIX),
    ("* ,1 * * *", "hour: ',1'", COMMA_FIX),
    ("* 1, * * *", "hour: '1,'", COMMA_FIX),
    ("*/0 * * * *", "minute: '*/0'", STEP_FIX),
    ("*/000 * * * *", "minute: '*/000'", STEP_FIX),
    ("*/ * * * *", "minute: '*/'", STEP_FIX),
    ("*/-1 * * * *", "minute: '*/-1'", STEP_FIX),
    ("*/x * * * *", "minute: '*/x'", STEP_FIX),
    ("*/5/2 * * * *", "minute: '*/5/2'", STEP_FIX),
    ("*/90 * * * * *", "second: '*/90'", "Use every='90s' instead of cron."),
    ("*/90 * * * *", "minute: '*/90'", "Use every='90m' instead of cron."),
    ("*/60 * * * *", "minute: '*/60'", "Use every='60m' instead of cron."),
    ("0-30/90 * * * *", "minute: '0-30/90'", "Use every='90m' instead of cron."),
    ("* */24 * * *", "hour: '*/24'", "Use every='24h' instead of cron."),
    ("* * */32 * *", "day of month: '*/32'", "Use every='32d' instead of cron."),
    ("* * * */13 *", "month: '*/13'", "A step in this field is at most 12."),
    ("* * * * */8", "day of week: '*/8'", "Use every='8d' instead of cron."),
    ("*/9999999 * * * *", "minute: '*/9999999'", "A step in this field is at most 59."),
    ("5-3 * * * *", "minute: '5-3'", "Write two ranges, such as '5-59,0-3'."),
    ("* 22-3 * * *", "hour: '22-3'", "Write two ranges, such as '22-23,0-3'."),
    ("* * * nov-feb *", "month: 'nov-feb'", "Write two ranges, such as '11-12,1-2'."),
    ("* * * * fri-mon", "day of week: 'fri-mon'", "Write two ranges, such as '5-6,0-1'."),
    ("* * * * 6-0", "day of week: '6-0'", "Write two ranges, such as '6-6,0-0'."),
    ("* * L * *", "day of month: 'L'", WIDER_FIX),
    ("* * l * *", "day of month: 'l'", WIDER_FIX),
    ("* * LW * *", "day of month: 'LW'", WIDER_FIX),
    ("* * L-3 * *", "day of month: 'L-3'", WIDER_FIX),
    ("* * 15W * *", "day of month: '15W'", WIDER_FIX),
    ("* * 1,15w * *", "day of month: '1,15w'", WIDER_FIX),
    ("* * * * 5#2", "day of week: '5#2'", WIDER_FIX),
    ("* * * * fri#L", "day of week: 'fri#L'", WIDER_FIX),
    ("* * * * 5L", "day of week: '5L'", WIDER_FIX),
    ("* * * * L5", "day of week: 'L5'", WIDER_FIX),
    ("H * * * *", "minute: 'H'", WIDER_FIX),
    ("H/15 * * * *", "minute: 'H/15'", WIDER_FIX),
    ("h(0-29)/10 * * * *", "minute: 'h(0-29)/10'", WIDER_FIX),
    ("R * * * *", "minute: 'R'", WIDER_FIX),
    ("R(0-5) * * * *", "minute: 'R(0-5)'", WIDER_FIX),
]


@pytest.mark.parametrize(
    ("expression", "named", "fix"), BAD_FIELDS, ids=[ascii(row[0]) for row in BAD_FIELDS]
)
def test_a_field_that_is_refused(expression: str, named: str, fix: str) -> None:
    """C1, Z3: a refusal names the field and shows it, and says what to write."""
    error = refusal(expression)
    assert str(error).startswith(f"cron: {named} ")
    assert error.fix.startswith(fix)


DATES_FIX = "Name a day that one of the months has."
FIELDS_FIX = "Write minute, hour, day of month, month and day of week"

BAD_EXPRESSIONS = [
    ("", "'' has 0 fields", FIELDS_FIX),
    (" \t ", r"' \t ' has 0 fields", FIELDS_FIX),
    ("* * *", "'* * *' has 3 fields", FIELDS_FIX),
    ("*\u00a0* * * *", r"'*\xa0* * * *' has 4 fields", FIELDS_FIX),
    ("* * * * * * *", "'* * * * * * *' has 7 fields", "Take out the year"),
    ("* * * * * * * *", "'* * * * * * * *' has 8 fields", FIELDS_FIX),
    ("30", "'30' has 1 field ", "Write '30s' for 30 seconds"),
    (" 5 ", "' 5 ' has 1 field ", "Write '5s' for 5 seconds"),
    ("90x", "'90x' has 1 field ", "Write five fields, such as '*/5 * * * *', or a duration"),
    ("@reboot", "'@reboot' names no time", "Call the job when the program starts"),
    ("@Reboot", "'@Reboot' names no time", "Call the job when the program starts"),
    ("@every 5m", "'@every 5m' has 2 fields", FIELDS_FIX),
    ("@fortnightly", "'@fortnightly' is not a known macro", "Use one of @yearly @annually"),
    ("@", "'@' is not a known macro", "Use one of @yearly"),
    ("@daily @daily", "'@daily @daily' has 2 fields", FIELDS_FIX),
    ("0 0 30 2 *", "no date has day of month '30' in month '2'", DATES_FIX),
    ("0 0 30-31 feb ?", "no date has day of month '30-31' in month 'feb'", DATES_FIX),
    ("0 0 31 4,6,9,11 *", "no date has day of month '31' in month '4,6,9,11'", DATES_FIX),
]


@pytest.mark.parametrize(
    ("expression", "why", "fix"), BAD_EXPRESSIONS, ids=[ascii(row[0]) for row in BAD_EXPRESSIONS]
)
def test_an_expression_that_is_refused(expression: str, why: str, fix: str) -> None:
    """C1, C3, K1: a refusal shows the expression, and says what to write."""
    error = refusal(expression)
    assert str(error).startswith(f"cron: {why}")
    assert error.fix.startswith(fix)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


LONG = 1_000_000

NASTY = [
    pytest.param("*" * LONG, id="stars"),
    pytest.param(" " * LONG, id="spaces"),
    pytest.param(" " * LONG + "* * * * *", id="spaces in front"),
    pytest.param("1" * LONG + " * * * *", id="digits"),
    pytest.param("*/" + "9" * LONG + " * * * *", id="a step of digits"),
    pytest.param("1," * LONG + "1 * * * *", id="a list"),
    pytest.param("-" * LONG + " * * * *", id="dashes"),
    pytest.param("@" * LONG, id="at signs"),
    pytest.param("L" * LONG + " * * * *", id="letters"),
    pytest.param("\ud800" * LONG, id="surrogates"),
    pytest.param("\0" * LONG, id="nulls"),
    pytest.param("* " * 500, id="many fields"),
    pytest.param("9" * 990 + " * * * *", id="a number of 990 digits"),
    pytest.param("*/" + "9" * 988 + " * * * *", id="a step of 988 digits"),
    pytest.param("9" * 1000, id="a number alone"),
    pytest.param("W" * 990 + " * * * *", id="990 letters"),
    pytest.param("," * 990 + " * * * *", id="990 commas"),
    pytest.param("\ud800 * * * *", id="a surrogate"),
    pytest.param("* * * * *" + " " * 1000, id="a thousand spaces behind"),
    pytest.param(None, id="None"),
    pytest.param(5, id="int"),
    pytest.param(10**10_000, id="a large int"),
    pytest.param(float("nan"), id="nan"),
    pytest.param(True, id="bool"),
    pytest.param(b"* * * * *", id="bytes"),
    pytest.param(["* * * * *"], id="list"),
    pytest.param({}, id="dict"),
    pytest.param(Unshowable(), id="unshowable"),
]


@pytest.mark.parametrize("expression", NASTY)
def test_nasty_input_is_refused(expression: str) -> None:
    """C8: long and odd input is refused like any other."""
    refusal(expression)


def test_the_length_of_an_expression() -> None:
    """C1: a thousand characters are read, one more is refused before anything else."""
    expression = ",".join(["5"] * 496) + " * * * *"
    assert len(expression) == 999
    assert parse_fields(expression + " ") == fields(minutes=[5])
    error = refusal(expression + "  ")
    assert "longer than 1,000 characters" in str(error)
    assert "longer than" in str(refusal("@" * 1001))


@given(
    st.text(max_size=30)
    | st.lists(
        st.text(alphabet="0123456789*?/,-@LW#HRadefjmnostu٣\u00a0", min_size=1, max_size=6),
        min_size=4,
        max_size=7,
    ).map(" ".join)
)
@example("* * * * *")
def test_any_text_is_read_or_refused(text: str) -> None:
    """C8: whatever the text, it is read or refused as a schedule."""
    try:
        found = parse_fields(text)
    except InvalidScheduleError:
        return
    assert all(found[:6])
