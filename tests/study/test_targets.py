"""Names of methods, taken apart and as the paper writes them."""

from __future__ import annotations

from evenroll.study.targets import label, parts_of


def test_a_name_is_taken_apart() -> None:
    assert parts_of("os") == (False, "os", "", "")
    assert parts_of("init+os/wis+mc") == (True, "os", "", "wis+mc")
    assert parts_of("ros:alpha=10/mc") == (False, "ros", "alpha=10", "mc")


def test_labels_are_the_papers() -> None:
    assert label("os/mc") == "OS-MC"
    assert label("init+os/wis+mc") == "(OPD + OS)-(WIS + MC)"
    assert label("init+bpg/ois") == "(OPD + BPG)-OIS"
    assert label("ros:alpha=10/mc") == "ROS-MC, α = 10"
