"""Which test shows what happens in each fault of the issue: `FAULTS`, one entry a fault, each with its tests as FILE::NAME.

test_faults.py checks that the list is complete and that every test is there.
"""

from __future__ import annotations

LOAD, SOAK = "tests/load/test_faults.py", "tests/load/test_soak.py"
HUB, CACHE, SANDBOX, LOGITS = (
    f"tests/test_{name}.py" for name in ("sources_hub", "cache", "sandbox", "logits")
)  # fmt: skip
_EVERY_HUB_FAULT = f"{HUB}::test_every_fault_ends_in_its_own_error_and_leaves_nothing_behind"
_HUB_OF_THE_PAGE = f"{LOAD}::test_every_fault_of_the_hub_is_one_visitors_alone"

# As the issue lists them.
LISTED = (
    "child killed by a signal", "zygote killed", "disk full", "read-only cache", "Hub silent", "Hub slow", "Hub gives half", "Hub 401",
    "Hub 403", "Hub 404", "Hub 429", "Hub 500", "Hub gives HTML", "Hub gives a wrong size", "cached blob truncated",
    "cached blob with a flipped bit", "model worker out of memory", "client gone", "one session flooding", "clock jump",
    "SIGTERM under load",
)  # fmt: skip

FAULTS: dict[str, tuple[str, ...]] = {
    "child killed by a signal": (
        f"{LOAD}::test_a_child_killed_by_a_signal_is_told_and_costs_nobody_else_anything",
        f"{SANDBOX}::test_a_dead_warm_child_is_replaced_before_the_next_request",
        f"{SANDBOX}::test_a_child_that_ends_before_it_began_the_job_costs_no_answer_and_a_job_never_runs_twice",
    ),
    "zygote killed": (f"{LOAD}::test_a_killed_zygote_is_replaced_and_status_counts_it",),
    "zygote stopped": (f"{SANDBOX}::test_a_zygote_that_hangs_is_replaced_in_bounded_time_and_the_call_answered",),
    "disk full": (
        f"{LOAD}::test_a_full_disk_refuses_what_would_be_kept_and_nothing_else",
        f"{HUB}::test_a_full_disk_is_said_and_leaves_nothing",
    ),
    "read-only cache": (f"{LOAD}::test_a_read_only_cache_refuses_what_would_be_kept_and_nothing_else",),
    **{
        f"Hub {fault}": (_HUB_OF_THE_PAGE, _EVERY_HUB_FAULT)
        for fault in ("silent", "slow", "gives half", "401", "403", "404", "429", "500", "gives HTML", "gives a wrong size")
    },
    "cached blob truncated": (
        f"{LOAD}::test_a_cached_file_that_changed_is_noticed_and_mended",
        f"{HUB}::test_a_truncated_cached_file_is_noticed_and_fetched_again",
    ),
    "cached blob with a flipped bit": (f"{LOAD}::test_a_cached_file_that_changed_is_noticed_and_mended",),
    "model worker out of memory": (f"{LOGITS}::test_a_worker_without_memory_says_so_and_answers_the_next",),
    "model worker killed": (
        f"{LOGITS}::test_a_worker_killed_at_work_is_a_typed_error_and_the_next_request_works",
        f"{LOGITS}::test_a_worker_killed_between_requests_is_started_again",
    ),
    "client gone": (f"{LOAD}::test_nothing_runs_on_for_a_client_that_left",),
    "one session flooding": (f"{LOAD}::test_a_session_that_floods_shuts_nobody_else_out",),
    "clock jump": (f"{LOAD}::test_limits_do_not_depend_on_the_wall_clock",),
    "SIGTERM under load": (f"{SOAK}::test_the_server_ends_under_load_and_starts_again",),
}  # fmt: skip
