"""How many panes there are, and in which order."""

from __future__ import annotations

ENGLISH = {
    "add_pane": "add pane",
    "pane_duplicate": "duplicate pane {pane}",
    "pane_swap": "swap pane {pane} with {other}",
    "pane_remove": "remove pane {pane}",
    "pane_added": "pane {pane} was added",
    "pane_removed": "pane {pane} was removed",
    "panes_swapped": "panes {a} and {b} were swapped",
    "panes_most": "there are at most {n} panes",
}
CHINESE = {
    "add_pane": "添加窗格",
    "pane_duplicate": "复制窗格 {pane}",
    "pane_swap": "交换窗格 {pane} 与 {other}",
    "pane_remove": "移除窗格 {pane}",
    "pane_added": "已添加窗格 {pane}",
    "pane_removed": "已移除窗格 {pane}",
    "panes_swapped": "已交换窗格 {a} 与 {b}",
    "panes_most": "最多 {n} 个窗格",
}
