//! The checks, in the order in which they are made. Each stands for one rule and says what it saw.

use std::time::Duration;

use futures::future::{join, join_all};
use protocol::{Answer, AttemptOutcome, EffectKey, EffectOutcome, ErrorClass};
use reconciler::Verb;

use super::subject::{Subject, Which, answer_words, known, outcome_words, receipt};
use super::{Check, Verdict};

/// Writes that are sent side by side.
const SIDE_BY_SIDE: u32 = 8;
/// Tombstones that race a write.
const RACES: u32 = 8;

/// What was seen, where the rule is kept and where it is not.
type Seen = Result<String, String>;

/// What a service must do where it fails a check.
const FIXES: [(&str, &str); 13] = [
    ("unknown_key_is_not_found", "answer 404 for a key that was never written"),
    ("write_commits_with_receipt", "answer 2xx with JSON that has an `effect_id`; check --write-path and --body"),
    ("key_tells_the_receipt", "answer 200 with `status: committed` and the write's `effect_id`"),
    ("key_tells_the_request", "keep the request's fingerprint with the key, and answer it as `request_fingerprint`"),
    ("repeat_gets_the_same_receipt", "record the outcome with the key, in one transaction; ignore the attempt's ID"),
    ("another_request_is_refused", "compare fingerprints; answer 422 with `error: fingerprint_mismatch`"),
    ("refusal_changes_nothing", "leave the record of a key as it is when another request comes with it"),
    ("side_by_side_applies_once", "take the key atomically; answer 409 with `status: in_progress` to the others"),
    ("tombstone_closes_the_key", "answer 200 or 201 with `status: rejected` and `closed: true`"),
    (
        "closed_key_refuses_the_write",
        "look for the tombstone in the write's transaction; answer 409 `outcome: rejected`",
    ),
    ("closed_key_is_rejected", "answer 200 with `status: rejected`, for the question and the tombstone repeated"),
    ("tombstone_spares_what_is_applied", "answer a tombstone for a committed key as a question for it"),
    ("tombstone_and_write_exclude_each_other", "let one transaction of the two see the other, whichever is first"),
];

/// Collects checks.
#[derive(Default)]
struct Report(Vec<Check>);

impl Report {
    fn add(&mut self, name: &'static str, seen: Seen) {
        let fix = FIXES.iter().find(|(check, _)| *check == name).map_or("", |(_, fix)| *fix);
        self.0.push(match seen {
            Ok(seen) => Check { name, verdict: Verdict::Pass, seen, fix: "" },
            Err(seen) => Check { name, verdict: Verdict::Fail, seen, fix },
        });
    }

    /// Lists every check that was not made.
    fn skip_the_rest(mut self, why: &str) -> Vec<Check> {
        for (name, _) in FIXES {
            if !self.0.iter().any(|check| check.name == name) {
                self.0.push(Check { name, verdict: Verdict::Skip, seen: why.to_owned(), fix: "" });
            }
        }
        self.0
    }
}

/// Makes the checks; with those of tombstones where the service takes them.
pub async fn all(subject: &Subject, tombstone: bool) -> Vec<Check> {
    let mut report = Report::default();
    let key = subject.key("first");
    let before = subject.ask(&key).await;
    report.add("unknown_key_is_not_found", expect(before == Answer::NotApplied, answer_words(&before)));
    let written = subject.write(&key, Which::Ours, 1).await;
    let Some(id) = receipt(&written).map(str::to_owned) else {
        report.add("write_commits_with_receipt", Err(outcome_words(&written)));
        return report.skip_the_rest("the first write did not commit with a receipt");
    };
    report.add("write_commits_with_receipt", Ok(outcome_words(&written)));
    of_a_written_key(subject, &key, &id, &mut report).await;
    report.add("side_by_side_applies_once", side_by_side(subject).await);
    if !tombstone {
        return report.skip_the_rest("--tombstone was not given");
    }
    of_tombstones(subject, &key, &id, &mut report).await;
    report.skip_the_rest("the service closed no key")
}

fn expect(holds: bool, seen: String) -> Seen {
    if holds { Ok(seen) } else { Err(seen) }
}

async fn of_a_written_key(subject: &Subject, key: &EffectKey, id: &str, report: &mut Report) {
    let asked = subject.ask(key).await;
    report.add("key_tells_the_receipt", expect(known(&asked) == Some(id), answer_words(&asked)));
    let asked = subject.put(Verb::Ask, key, Which::Another).await;
    let told = matches!(asked, Answer::Unanswerable { .. });
    report.add("key_tells_the_request", expect(told, format!("asked for another request: {}", answer_words(&asked))));
    let again = subject.write(key, Which::Ours, 2).await;
    report.add("repeat_gets_the_same_receipt", expect(receipt(&again) == Some(id), outcome_words(&again)));
    let another = subject.write(key, Which::Another, 3).await;
    let refused = matches!(&another, AttemptOutcome::Failed { error } if error.class == ErrorClass::Conflict);
    report.add("another_request_is_refused", expect(refused, outcome_words(&another)));
    let after = subject.ask(key).await;
    report.add("refusal_changes_nothing", expect(known(&after) == Some(id), answer_words(&after)));
}

/// The owner's word, once it has one; a write that is in progress is waited for, for a second.
async fn certain(subject: &Subject, key: &EffectKey) -> Answer {
    for _ in 0..20 {
        match subject.ask(key).await {
            Answer::Pending { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
            answer => return answer,
        }
    }
    Answer::Pending { retry_after_ms: 0 }
}

async fn side_by_side(subject: &Subject) -> Seen {
    let key = subject.key("side-by-side");
    let writes = (1..=SIDE_BY_SIDE).map(|attempt| subject.write(&key, Which::Ours, attempt));
    let outcomes = join_all(writes).await;
    let last = certain(subject, &key).await;
    let Some(id) = known(&last) else {
        return Err(format!("after {SIDE_BY_SIDE} writes: {}", answer_words(&last)));
    };
    for outcome in &outcomes {
        let agrees = match outcome {
            AttemptOutcome::Succeeded { .. } => receipt(outcome) == Some(id),
            // In progress, or no time for it: nothing certain was said.
            AttemptOutcome::Unknown { .. } | AttemptOutcome::NothingSent { .. } => true,
            AttemptOutcome::Failed { .. } => false,
        };
        if !agrees {
            return Err(format!("{}, and another write {}", answer_words(&last), outcome_words(outcome)));
        }
    }
    Ok(format!("{SIDE_BY_SIDE} writes: {}", answer_words(&last)))
}

async fn of_tombstones(subject: &Subject, written: &EffectKey, id: &str, report: &mut Report) {
    let key = subject.key("closed");
    let closed = subject.close(&key).await;
    report.add("tombstone_closes_the_key", expect(is_rejected(&closed), answer_words(&closed)));
    if is_rejected(&closed) {
        let late = subject.write(&key, Which::Ours, 1).await;
        let refused = matches!(late, AttemptOutcome::Failed { .. });
        report.add("closed_key_refuses_the_write", expect(refused, outcome_words(&late)));
        let (asked, again) = (subject.ask(&key).await, subject.close(&key).await);
        let seen = format!("asked: {}; closed again: {}", answer_words(&asked), answer_words(&again));
        report.add("closed_key_is_rejected", expect(is_rejected(&asked) && is_rejected(&again), seen));
    }
    let (spared, after) = (subject.close(written).await, subject.ask(written).await);
    let holds = known(&spared) == Some(id) && known(&after) == Some(id);
    let seen = format!("closed: {}; asked: {}", answer_words(&spared), answer_words(&after));
    report.add("tombstone_spares_what_is_applied", expect(holds, seen));
    if is_rejected(&closed) {
        report.add("tombstone_and_write_exclude_each_other", races(subject).await);
    }
}

fn is_rejected(answer: &Answer) -> bool {
    matches!(answer, Answer::Certain { outcome: EffectOutcome::Rejected { .. } })
}

/// A write and a tombstone, side by side: what each was told with certainty is what the key says afterwards.
async fn races(subject: &Subject) -> Seen {
    for race in 0..RACES {
        let key = subject.key(&format!("race-{race}"));
        let (written, closed) = join(subject.write(&key, Which::Ours, 1), subject.close(&key)).await;
        let last = certain(subject, &key).await;
        let write_agrees = match &written {
            AttemptOutcome::Succeeded { .. } => known(&last).is_some() && known(&last) == receipt(&written),
            AttemptOutcome::Failed { .. } => is_rejected(&last),
            AttemptOutcome::Unknown { .. } | AttemptOutcome::NothingSent { .. } => true,
        };
        let close_agrees = match &closed {
            Answer::Certain { outcome: EffectOutcome::Committed { .. } } => known(&last).is_some(),
            Answer::Certain { outcome: EffectOutcome::Rejected { .. } } => is_rejected(&last),
            Answer::Pending { .. } => true,
            Answer::NotApplied | Answer::Unanswerable { .. } => false,
        };
        let is_certain = matches!(last, Answer::Certain { .. });
        if !(write_agrees && close_agrees && is_certain) {
            let (written, closed) = (outcome_words(&written), answer_words(&closed));
            return Err(format!("the write {written}, the tombstone {closed}, then {}", answer_words(&last)));
        }
    }
    Ok(format!("{RACES} races: one of the two won each"))
}
