"""Controllers: what is collected from a class and its bases."""

from __future__ import annotations

from weftjobs_controllers import Controller, build_entrypoints, schedule


class Jobs(Controller):
    @schedule("1s", description="Ticks")
    async def tick(self) -> None: ...

    @schedule("0 3 * * *")
    @schedule("5m", name="often")
    def tidy(self) -> None: ...

    def helper(self) -> None: ...


def names_of(*controllers: type[Controller]) -> list[tuple[str, str]]:
    actions = build_entrypoints(controllers=controllers).actions
    return [(action.name, action.schedule) for action in actions]


def test_jobs_in_the_order_in_which_they_are_written() -> None:
    """K3: a job is called `Class.method` unless it has a name of its own."""
    assert names_of(Jobs) == [
        ("Jobs.tick", "every 1s"),
        ("Jobs.tidy", "cron 0 3 * * *"),
        ("often", "every 5m"),
    ]


def test_subclass_inherits_under_its_own_name() -> None:
    """K2: inherited jobs are called after the subclass; its own come after them."""

    class MoreJobs(Jobs):
        @schedule("1h")
        async def more(self) -> None: ...

    assert [name for name, _ in names_of(MoreJobs)] == [
        "MoreJobs.tick",
        "MoreJobs.tidy",
        "often",
        "MoreJobs.more",
    ]


def test_overriding_without_the_decorator_unschedules() -> None:
    """K2: an override is scheduled only if it says so itself."""

    class Fewer(Jobs):
        async def tick(self) -> None: ...

        tidy = None  # type: ignore[assignment]

    class Slower(Fewer):
        @schedule("1m")
        async def tick(self) -> None: ...

    assert names_of(Fewer) == []
    assert names_of(Slower) == [("Slower.tick", "every 1m")]


def test_mixin_that_is_no_controller() -> None:
    """K2: scheduled methods come from every base, a plain class as well."""

    class Mixin:
        @schedule("1s")
        async def mixed(self) -> None: ...

    class Mixed(Mixin, Controller):
        pass

    assert names_of(Mixed) == [("Mixed.mixed", "every 1s")]


def test_scheduled_method_is_called_as_ever() -> None:
    """K1: a scheduled method is a method like any other."""

    class Sums(Controller):
        @schedule("1s")
        def add(self, more: int = 1) -> int:
            return 1 + more

    assert Sums().add(2) == 3
