//! The error cycle.

use serde_json::json;

use super::*;

#[test]
fn a_tool_that_fails_in_the_same_way_use_after_use_is_stopped_and_others_are_not() {
    let mut run = Run::new(only(|limits| limits.error_cycle = Limit::after(3)));
    let invalid = || failure(ErrorClass::InvalidArguments);
    for n in 1..=3 {
        assert_eq!(run.stopped("save", n), [""; 0]);
        assert_eq!(run.one("save", n, invalid()).error_cycle, n);
        assert_eq!(run.read("fix").error_cycle, n, "what is done in between does not matter");
    }
    assert_eq!(run.stopped("save", 4), ["error_cycle"]);
    assert_eq!(run.stopped("fix", 4), [""; 0]);
    let both = [call("fix", json!({})), call("save", json!({}))];
    assert_eq!(run.stopped_by(&both, u32::MAX), ["error_cycle"]);
    let path = run.0.findings(&plan(&both), run.0.mark(&plan(&both), fingerprint(&both)), 9)[0].path.clone();
    assert_eq!(path, "calls[1]");
}

#[test]
fn another_class_a_success_or_a_call_that_was_never_tried_ends_or_keeps_an_error_streak() {
    let mut run = Run::new(only(|limits| limits.error_cycle = Limit::after(3)));
    let mut fails = |class| run.one("save", 1, failure(class)).error_cycle;
    assert_eq!(fails(ErrorClass::Conflict), 1);
    assert_eq!(fails(ErrorClass::Conflict), 2);
    assert_eq!((fails(ErrorClass::Skipped), fails(ErrorClass::Cancelled)), (2, 2), "never tried");
    assert_eq!(fails(ErrorClass::NotFound), 1, "another class");
    assert_eq!(run.one("save", 1, output(json!(1))).error_cycle, 0);
    assert_eq!(run.0.errors, []);
    // In one batch: two failures are one use, and a success says that the tool works.
    let two = [call("save", json!({"n": 1})), call("save", json!({"n": 2}))];
    let (bad, good) = (failure(ErrorClass::Conflict), output(json!(1)));
    assert_eq!(run.turn(&two, &[bad.clone(), bad.clone()]).error_cycle, 1);
    assert_eq!(run.turn(&two, &[bad.clone(), failure(ErrorClass::NotFound)]).error_cycle, 2);
    assert_eq!(run.turn(&two, &[bad, good]).error_cycle, 0);
}

#[test]
fn error_streaks_are_bounded() {
    let mut run = Run::new(only(|_| {}));
    (0..100).for_each(|n| drop(run.one(&format!("t{n}"), 1, failure(ErrorClass::Conflict))));
    assert_eq!(run.0.errors.len(), MAX_ERROR_STREAKS);
    assert_eq!(run.one("t99", 1, failure(ErrorClass::Conflict)).error_cycle, 2);
    assert_eq!(run.one("t0", 1, failure(ErrorClass::Conflict)).error_cycle, 2, "t0 was forgotten, t99 was not");
}
