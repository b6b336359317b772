//! The replay suite (M26): one transcript per branch of the protocol, in `testdata`. Each is a case of its own; together
//! they must show every fact, every reason and every cell of the table of phases and inputs.
//!
//! `UPDATE_TRANSCRIPTS=1 cargo test -p turnwright-protocol replay` writes what the core does below each command; read the
//! difference before you commit it.

mod coverage;
mod inputs;
mod show;
mod stage;
mod transcript;

use std::path::PathBuf;

use stage::Stage;
use transcript::{Command, Transcript};

/// Plays a transcript and gives the lines of each command, and the stage after it.
fn play(transcript: &Transcript) -> Result<(Vec<Vec<String>>, Stage), String> {
    let mut stage = Stage::new();
    let mut lines = Vec::new();
    for block in &transcript.blocks {
        let played = Command::parse(&block.command).and_then(|command| stage.play(&command));
        lines.push(played.map_err(|error| format!("> {}\n{error}", block.command))?);
    }
    Ok((lines, stage))
}

/// The state after these commands.
pub fn after(commands: &[&str]) -> crate::Invocation {
    let mut stage = Stage::new();
    for text in commands {
        let played = Command::parse(text).and_then(|command| stage.play(&command));
        played.unwrap_or_else(|error| panic!("> {text}\n{error}"));
    }
    stage.into_state()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn read(name: &str) -> (String, Transcript) {
    let path = directory().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text).unwrap_or_else(|error| panic!("{name}.txt: {error}"));
    (text, transcript)
}

#[allow(clippy::disallowed_methods, reason = "whoever runs the tests says whether expectations are written anew")]
fn updates() -> bool {
    std::env::var_os("UPDATE_TRANSCRIPTS").is_some()
}

#[track_caller]
fn check(name: &str) {
    let (text, transcript) = read(name);
    assert!(transcript.intent.trim_end().ends_with('.'), "{name}.txt opens with a sentence of intent");
    let (lines, _) = play(&transcript).unwrap_or_else(|error| panic!("{name}.txt: {error}"));
    let played = transcript.with_lines(&lines);
    if updates() && played != text {
        std::fs::write(directory().join(format!("{name}.txt")), &played).expect("the transcript can be written");
        return;
    }
    for (block, lines) in transcript.blocks.iter().zip(&lines) {
        let (expected, found) = (block.expected.join("\n"), lines.join("\n"));
        assert!(
            block.expected == *lines,
            "{name}.txt:\n> {}\nexpected:\n{expected}\nfound:\n{found}\n(UPDATE_TRANSCRIPTS=1 writes what is found)",
            block.command
        );
    }
    assert!(played == text, "{name}.txt is not laid out as it would be written: UPDATE_TRANSCRIPTS=1 does it");
}

/// A case per file; a test checks that no file is left out.
macro_rules! transcripts {
    ($($name:ident)*) => {
        const TRANSCRIPTS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

transcripts! {
    active_time
    active_time_while_a_person_is_asked
    answer_over_the_budget
    approval_after_the_deadline
    approval_asked_by_the_model
    approval_asked_by_the_model_and_by_policy
    approval_by_four_eyes
    approval_by_the_actor
    approval_expired
    approval_granted
    approval_of_an_unplannable_batch
    approval_of_no_call
    approval_of_the_wrong_digest
    approval_over_the_budget
    approval_refused
    budget_over_the_ceiling
    cancel_after_the_claim
    cancel_after_the_end
    cancel_and_nothing_sent
    cancel_before_the_claim
    cancel_overtakes_request
    cancel_while_an_answer_is_waited_for
    cancel_while_an_approval_is_waited_for
    cancel_while_backing_off
    cancel_while_deciding
    cancel_while_suspended
    cancel_while_the_owner_cannot_say
    cancel_while_the_owner_is_asked
    cannot_continue
    claims
    clarification
    clarification_after_the_deadline
    clarification_answered_twice
    clarification_at_the_last_step
    clarification_over_the_budget
    clock_that_steps_back
    contradiction
    contradiction_by_the_owner
    cost_budget
    crash_after_dispatch_committed
    crash_after_dispatch_late_result
    crash_after_dispatch_rejected
    deadline_at_the_last_result
    deadline_at_the_verdict
    deadline_before_a_retry
    deadline_before_the_request
    deadline_while_an_answer_is_waited_for
    deadline_while_an_approval_is_waited_for
    deadline_while_deciding
    deadline_while_executing
    deadline_while_suspended
    denied_and_invalid_decision
    denied_decision
    direct_answer
    effect_committed
    effect_rejected
    forked_history
    grace
    in_cancelling
    in_deciding
    in_ended
    in_executing
    in_suspended_for_a_clarification
    in_suspended_for_an_approval
    in_suspended_for_an_operator
    invalid_decision
    key_that_is_still_prepared
    key_with_another_fingerprint
    late_answer_of_a_silent_model
    late_claim_of_a_rereleased_effect
    late_read_while_it_backs_off
    leases_of_reads
    lost_commit
    lost_read
    lost_run
    max_steps
    model_error
    narrowed_request
    nothing_is_known
    nothing_sent
    nothing_sent_after_the_end
    nothing_sent_for_good
    oldest_request
    one_call
    one_change_twice_in_a_batch
    ordered_waves
    parallel_calls_out_of_order
    partial_failure
    polling_is_no_repetition
    read_is_not_retried
    read_retries
    recorded_outcome
    recorded_rejection
    refusal_after_the_deadline
    refusal_at_the_last_step
    refused_answer
    refused_plan_is_repeated
    repaired_answer
    repaired_decision
    repeated_plan
    repeated_plan_with_another_between
    resolved_while_it_runs
    retries_within_the_tool_budget
    retry_after
    same_request_again
    silent_model
    skipped_dependants
    stale_verdicts
    suspended_only_when_nothing_runs
    time_of_the_request
    token_budget_at_a_repair
    token_budget_at_the_plan
    token_budget_used_up
    too_many_calls
    tool_budget
    tool_outside_the_profile
    tool_unavailable
    unanswerable_after_the_end
    unanswerable_then_rejected_by_a_person
    unanswerable_then_resumed
    unclaimed_effect
    undeclared_effects_run_alone
    unknown_after_the_end
    unknown_agent
    unknown_at_an_owner_without_keys
    unknown_before_the_settle_window_too_often
    unknown_not_applied
    unknown_not_applied_once_too_often
    unknown_owner_silent
    unknown_pending
    unknown_pending_too_often
    unplannable_batch
}

#[test]
fn every_file_is_a_case() {
    let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    let mut listed = TRANSCRIPTS.to_vec();
    listed.sort_unstable();
    assert_eq!(names, listed);
}
