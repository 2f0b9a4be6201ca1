"""The search for settings: judged by validation, repeatable, and it can be cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.training import RunConfig, SearchConfig, run
from costmodel.tune import main
from placer.base.config import compose_config, run_command, to_dataclass
from tests.costmodel.training.tiny import interrupt, overrides

SPACE = "search.space=[{name:trainer.learning_rate,kind:float,low:1e-3,high:1e-2,log:true}]"


def tune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "tune", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code, *capsys.readouterr()


def arguments(folder: Path, *more: str) -> list[str]:
    objective = "search.objective=val_loss"
    return overrides(folder, "trainer.max_epochs=1", "search.trials=2", objective, SPACE, *more)


@pytest.mark.slow
def test_the_default_space_is_of_known_settings() -> None:
    config = compose_config("tune")
    search = to_dataclass(SearchConfig, config.search)
    base = {key: config[key] for key in config if key != "search"}
    assert to_dataclass(RunConfig, compose_config("train")).output != base["output"]
    for setting in search.space:
        override = f"{setting.name}={setting.least}"
        to_dataclass(RunConfig, compose_config("train", [override])).learning()


@pytest.mark.slow
def test_a_search_goes_on_where_ctrl_c_stopped_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = iter([run, interrupt])
    with monkeypatch.context() as patch:
        patch.setattr("costmodel.tune.run", lambda *args, **kwargs: next(trials)(*args, **kwargs))
        code, out, err = tune(capsys, *arguments(folder))
    assert (code, err) == (130, "interrupted\n")
    assert "trial 1 of 2: val_loss" in out
    code, rest, _ = tune(capsys, *arguments(folder))
    assert code == 0
    assert "trial 2 of 2" in rest
    assert "trial 1 of" not in rest
    whole = tune(capsys, *arguments(folder, f"output={folder / 'whole'}"))[1]
    assert whole.splitlines()[-2:] == rest.splitlines()[-2:]
    assert "best: val_loss" in whole
    assert "trainer.learning_rate=" in whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["search.trials=0"], "search.trials=0"),
        (["search.space=[]"], "0 settings in search.space"),
        ([SPACE.replace("trainer.learning_rate", "trainer.speed")], "speed"),
        ([SPACE.replace("1e-3", "0")], "low=0.0"),
    ],
)
def test_wrong_searches_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: list[str], message: str
) -> None:
    code, _, err = tune(capsys, *arguments(folder, *changes))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_other_settings_in_the_same_folder_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(capsys, *arguments(folder, "search.trials=1"))[0] == 0
    code, _, err = tune(capsys, *arguments(folder, "seed=1"))
    assert code == 2
    assert "holds trials of a search with other settings" in err
