"""Rules about one inspection, one file each, joined in `RULES`; which of them ran, and what they found.

A rule reads who wrote what (segments, token flags), the template's syntax tree, and what probes answer. None renders or
encodes by itself, but through lint/probes.py, and none of them changes anything.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inspector.findings import Finding, Severity
from inspector.lint import (
    added_id_moved,
    argument_as_string,
    argument_unread,
    arguments_not_json,
    arguments_quoted_twice,
    arguments_spacing,
    arguments_want_object,
    arguments_want_string,
    assistant_mask_empty,
    bare_function,
    bos_added_again,
    bos_missing,
    boundary_token,
    budget_dropped,
    call_id_twice,
    call_of_unknown_tool,
    case_folded,
    clean_up_spaces,
    clock_in_prompt,
    compatibility_folded,
    config_file_ignored,
    config_ids_differ,
    content_cut,
    content_wants_parts,
    content_wants_text,
    continue_header_differs,
    control_characters,
    control_literal_split,
    control_token_assembled,
    decomposed_text,
    default_system_prompt,
    documents_unread,
    double_bos,
    empty_or_null_content,
    empty_tool_calls,
    empty_tools,
    end_mark_unstable,
    end_mark_untrained,
    engine_differs,
    engine_extension,
    eos_after_prompt,
    file_pads,
    file_truncates,
    forged_control_in_result,
    forged_control_token,
    generation_mask_shifted,
    generation_prompt_default,
    generation_prompt_missing,
    generation_prompt_opens_thinking,
    history_rewritten,
    html_escaped,
    id_beyond_model,
    id_shared,
    ids_differ_from_base,
    integral_float,
    invisible_characters,
    key_twice,
    late_system,
    line_ends,
    lone_surrogate,
    look_alike_control,
    markup_concatenation,
    media_cut,
    media_dropped,
    message_dropped,
    namespace_underscore,
    needs_tools,
    no_generation_tag,
    not_own_template,
    null_content,
    null_in_schema,
    null_printed,
    number_respelled,
    orphan_tool_result,
    over_window,
    pad_is_eos,
    padding_unmasked,
    parallel_calls,
    parts_printed,
    placeholder_typed,
    placeholder_unexpanded,
    position_ids_ignore_mask,
    prefill_changed,
    pretokenizer_pattern,
    prompt_after_answer,
    prompt_cut,
    prompt_ends_in_space,
    prompt_not_prefix,
    provenance_unknown,
    python_literals,
    python_object_printed,
    python_spelling,
    reasoning_alias,
    reasoning_dropped,
    reasoning_stripped,
    render_failed,
    renders_differ,
    replacement_character,
    required_unknown,
    right_padding,
    role_refused,
    roles_must_alternate,
    rows_without_token,
    sandbox_blocked,
    sent_ids_differ,
    sent_length_differs,
    sent_mask_differs,
    sent_text_differs,
    sizes_differ,
    space_inserted,
    special_name_missing,
    special_text_refused,
    split_character,
    stale_date,
    start_cut,
    template_final_newline,
    template_missing,
    template_pairing,
    text_normalized,
    tojson_escapes,
    tojson_style,
    tokenizer_differs_from_base,
    tool_call_id_form,
    tool_calls_dropped,
    tool_name_twice,
    tool_result_dropped,
    tools_unread,
    turn_end_not_eos,
    unanswered_call,
    uncovered_bytes,
    undefined_printed,
    unknown_role,
    unknown_token,
)
from inspector.lint.base import Rule
from inspector.lint.evidence import Evidence
from inspector.lint.presence import present
from inspector.lint.report import Report, check_ignored, run_rules
from inspector.lint.subject import Subject

if TYPE_CHECKING:
    from inspector.pipeline import Inspection

RULES: tuple[Rule, ...] = (
    bos_added_again.RULE,
    bos_missing.RULE,
    control_literal_split.RULE,
    double_bos.RULE,
    eos_after_prompt.RULE,
    pad_is_eos.RULE,
    turn_end_not_eos.RULE,
    boundary_token.RULE,
    continue_header_differs.RULE,
    end_mark_unstable.RULE,
    generation_prompt_missing.RULE,
    generation_prompt_opens_thinking.RULE,
    prefill_changed.RULE,
    prompt_after_answer.RULE,
    prompt_ends_in_space.RULE,
    prompt_not_prefix.RULE,
    default_system_prompt.RULE,
    documents_unread.RULE,
    late_system.RULE,
    message_dropped.RULE,
    role_refused.RULE,
    roles_must_alternate.RULE,
    tool_result_dropped.RULE,
    unknown_role.RULE,
    bare_function.RULE,
    empty_tools.RULE,
    html_escaped.RULE,
    markup_concatenation.RULE,
    needs_tools.RULE,
    null_in_schema.RULE,
    required_unknown.RULE,
    tojson_escapes.RULE,
    tojson_style.RULE,
    tool_name_twice.RULE,
    tools_unread.RULE,
    arguments_not_json.RULE,
    arguments_quoted_twice.RULE,
    arguments_spacing.RULE,
    arguments_want_object.RULE,
    arguments_want_string.RULE,
    call_id_twice.RULE,
    call_of_unknown_tool.RULE,
    empty_or_null_content.RULE,
    empty_tool_calls.RULE,
    integral_float.RULE,
    null_content.RULE,
    number_respelled.RULE,
    parallel_calls.RULE,
    python_literals.RULE,
    tool_call_id_form.RULE,
    tool_calls_dropped.RULE,
    argument_as_string.RULE,
    argument_unread.RULE,
    content_cut.RULE,
    history_rewritten.RULE,
    reasoning_alias.RULE,
    reasoning_dropped.RULE,
    reasoning_stripped.RULE,
    control_token_assembled.RULE,
    forged_control_in_result.RULE,
    forged_control_token.RULE,
    look_alike_control.RULE,
    placeholder_typed.RULE,
    special_text_refused.RULE,
    engine_differs.RULE,
    engine_extension.RULE,
    generation_prompt_default.RULE,
    namespace_underscore.RULE,
    null_printed.RULE,
    provenance_unknown.RULE,
    python_object_printed.RULE,
    python_spelling.RULE,
    render_failed.RULE,
    sandbox_blocked.RULE,
    template_final_newline.RULE,
    undefined_printed.RULE,
    clock_in_prompt.RULE,
    not_own_template.RULE,
    renders_differ.RULE,
    sent_text_differs.RULE,
    stale_date.RULE,
    template_missing.RULE,
    template_pairing.RULE,
    tokenizer_differs_from_base.RULE,
    compatibility_folded.RULE,
    control_characters.RULE,
    decomposed_text.RULE,
    invisible_characters.RULE,
    line_ends.RULE,
    lone_surrogate.RULE,
    replacement_character.RULE,
    split_character.RULE,
    text_normalized.RULE,
    unknown_token.RULE,
    case_folded.RULE,
    clean_up_spaces.RULE,
    ids_differ_from_base.RULE,
    pretokenizer_pattern.RULE,
    sent_ids_differ.RULE,
    space_inserted.RULE,
    uncovered_bytes.RULE,
    padding_unmasked.RULE,
    position_ids_ignore_mask.RULE,
    right_padding.RULE,
    budget_dropped.RULE,
    orphan_tool_result.RULE,
    over_window.RULE,
    prompt_cut.RULE,
    start_cut.RULE,
    unanswered_call.RULE,
    assistant_mask_empty.RULE,
    end_mark_untrained.RULE,
    generation_mask_shifted.RULE,
    no_generation_tag.RULE,
    sent_mask_differs.RULE,
    config_ids_differ.RULE,
    id_beyond_model.RULE,
    rows_without_token.RULE,
    sizes_differ.RULE,
    added_id_moved.RULE,
    id_shared.RULE,
    config_file_ignored.RULE,
    key_twice.RULE,
    file_truncates.RULE,
    file_pads.RULE,
    content_wants_parts.RULE,
    content_wants_text.RULE,
    media_cut.RULE,
    media_dropped.RULE,
    parts_printed.RULE,
    placeholder_unexpanded.RULE,
    sent_length_differs.RULE,
    special_name_missing.RULE,
)
LIVE: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.live)


def live_findings(inspection: Inspection) -> tuple[Finding, ...]:
    """Give what the cheap rules find: those that read one inspection and run on each."""
    subject = Subject(inspection)
    return run_rules(_asked(present(subject)), subject)


@functools.lru_cache(maxsize=512)
def _asked(there: int) -> tuple[Rule, ...]:
    """Give the live rules that can find something where these of `Need` are there."""
    return tuple(rule for rule in LIVE if not rule.needs or rule.needs & there)


def lint(
    inspection: Inspection,
    *,
    evidence: Evidence | None = None,
    ignore: Mapping[str, str] | None = None,
    rules: Iterable[Rule] = RULES,
) -> Report:
    """Check one inspection with every rule, probing where they ask.

    `ignore`: rule id -> reason; also read from the request's own `lint.ignore`.
    Errors: OptionInvalid for a rule that does not exist, or that has no reason.

    >>> from inspector import inspect
    >>> report = lint(inspect([{"role": "user", "content": "hi"}], tokenizer="bytes"))
    >>> [finding.rule for finding in report.findings if finding.severity == "error"]
    []
    """
    subject = Subject(inspection, evidence)
    silenced = check_ignored({**ignored_by(inspection), **(ignore or {})}, (rule.id for rule in RULES))
    findings = _without_echo(run_rules(rules, subject, silenced), subject)
    card = subject.card if inspection.template is not None else None
    return Report(findings, card, subject.probes.rows(), inspection.error)


def _without_echo(findings: tuple[Finding, ...], subject: Subject) -> tuple[Finding, ...]:
    """Leave out that rendering failed where a probe found why: the same error would be counted twice."""
    probing = {rule.id for rule in RULES if not rule.live}
    if not subject.refused or not any(f.rule in probing and f.severity == Severity.ERROR for f in findings):
        return findings
    return tuple(finding for finding in findings if finding.rule != render_failed.RULE.id)


def ignored_by(inspection: Inspection) -> Mapping[str, Any]:
    """Give the rules that the request itself silences, with what it gives as reasons."""
    given = inspection.request.extra.get("lint") if inspection.request is not None else None
    ignored = given.get("ignore") if isinstance(given, dict) else None
    return ignored if isinstance(ignored, dict) else {}


__all__ = ["LIVE", "RULES", "Evidence", "Report", "Rule", "Subject", "lint", "live_findings"]
