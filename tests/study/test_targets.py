"""Names of methods as the paper writes them."""

from __future__ import annotations

from evenroll.study.targets import label


def test_labels_are_the_papers() -> None:
    assert label("os/mc") == "OS-MC"
    assert label("init+os/wis+mc") == "(OPD + OS)-(WIS + MC)"
    assert label("init+bpg/ois") == "(OPD + BPG)-OIS"
    assert label("ros:alpha=10/mc") == "ROS-MC, α = 10"
    assert label("init+module:Mine:strength=1/module:median") == "(OPD + Mine)-median, strength=1"
