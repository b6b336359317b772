//! Authorization inside the judgement of a decision: what a model is told, and what waits for a person.

use protocol::FindingCode::{BudgetExceeded, InvalidArguments, Unauthorized};
use protocol::{AcceptedDecision, ApprovalReason, Finding, Judgement, all_denied};
use serde_json::{Value, json};

use super::world::*;

const POLICY: &str = r#"
@id("acme") permit(principal in Tenant::"acme", action, resource);
@id("locked") @description("the secret reason")
forbid(principal, action, resource == Object::"order:X");
@id("limit") forbid(principal, action == Action::"refund", resource)
when { context.arguments has amount && context.arguments.amount > 90 };
@id("large") @approval("more than 50") @four_eyes("true") @ttl("PT2H")
forbid(principal, action == Action::"refund", resource)
when { context.arguments has amount && context.arguments.amount > 50 };
@id("audits") @approval("an audit is on record") @ttl("60")
forbid(principal, action == Action::"audit", resource);
"#;

fn refund(id: &str, order: &str, amount: i64) -> Value {
    call(id, "refund", json!({"order": order, "amount": amount}))
}

fn lookup(id: &str) -> Value {
    call(id, "lookup", json!({"q": "a"}))
}

fn judged(calls: &[Value]) -> Judgement {
    judge_by(POLICY).judge(&proposed(turn(), batch(calls)))
}

fn denials(calls: &[Value]) -> Vec<Finding> {
    match judged(calls) {
        Judgement::Rejected { findings, .. } => findings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_denial_is_reported_by_policy_name_and_never_by_its_text() {
    let found = denials(&[refund("c1", "X", 95), lookup("c2"), refund("c3", "A", 95)]);
    assert_eq!(places(&found), [(Unauthorized, "calls[0]"), (Unauthorized, "calls[2]")]);
    assert_eq!(found[0].message, "`refund`, to write `order:X`, is denied by `limit`, `locked`");
    assert_eq!(found[1].message, "`refund`, to write `order:A`, is denied by `limit`");
    assert!(all_denied(&found));
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn a_tenant_that_no_policy_permits_is_told_so() {
    let mut foreign = turn();
    foreign.scope.tenant = "globex".into();
    let Judgement::Rejected { findings, .. } = judge_by(POLICY).judge(&proposed(foreign, batch(&[lookup("c1")])))
    else {
        panic!("it was let in");
    };
    assert_eq!(findings[0].message, "`lookup` is denied: no policy permits it");
}

#[test]
fn a_policy_that_cannot_be_evaluated_denies_without_telling_the_model_how_it_is_written() {
    let text = "permit(principal, action, resource); @id(\"vips\") forbid(principal, action, resource) when { principal.vip };";
    let Judgement::Rejected { findings, .. } = judge_by(text).judge(&proposed(turn(), batch(&[lookup("c1")]))) else {
        panic!("it was let in");
    };
    assert_eq!(findings[0].message, "`lookup` is denied, because `vips` cannot be evaluated for it");
}

#[test]
fn denials_stand_after_budgets_and_before_the_plan_and_a_call_that_is_wrong_is_not_judged() {
    let mut narrow = turn();
    narrow.budget.max_tool_calls = 2;
    let calls = [refund("c1", "X", 500), refund("c2", "X", 5), call("c3", "audit", json!({"case": {}}))];
    let Judgement::Rejected { findings, .. } = judge_by(POLICY).judge(&proposed(narrow, batch(&calls))) else {
        panic!("it was let in");
    };
    let expected = [
        (InvalidArguments, "calls[0].arguments.amount"),
        (BudgetExceeded, "calls"),
        (Unauthorized, "calls[1]"),
        (InvalidArguments, "calls[2].arguments"),
    ];
    assert_eq!(places(&findings), expected, "{findings:#?}");
}

#[test]
fn a_gate_holds_the_whole_batch_and_says_which_call_it_is_about() {
    let Judgement::ApprovalRequired { decision, reasons, four_eyes, ttl_ms, .. } =
        judged(&[lookup("c1"), refund("c2", "A", 60), call("c3", "audit", json!({"case": {"id": 1}}))])
    else {
        panic!("nothing waits");
    };
    let AcceptedDecision::ToolCalls { calls } = decision else { panic!("{decision:?}") };
    assert_eq!(calls.len(), 3);
    let reason = |path: &str, policy: &str, message: &str| ApprovalReason {
        path: path.into(),
        policy: policy.into(),
        message: message.into(),
    };
    let expected = [reason("calls[1]", "large", "more than 50"), reason("calls[2]", "audits", "an audit is on record")];
    assert_eq!(reasons, expected);
    assert_eq!((four_eyes, ttl_ms), (true, Some(60_000)), "the strictest of both");
    assert!(matches!(judged(&[refund("c1", "A", 50)]), Judgement::Accepted { .. }));
}

#[test]
fn asking_for_an_approval_does_not_turn_a_denial_into_a_proposal() {
    let ask = |calls: Value| {
        let body = json!({"schema_version": 1, "kind": "request_approval", "calls": calls}).to_string();
        judge_by(POLICY).judge(&proposed(turn(), body))
    };
    let denied = ask(json!([refund("c1", "X", 5)]));
    assert!(matches!(&denied, Judgement::Rejected { findings, .. } if all_denied(findings)), "{denied:?}");
    let both = ask(json!([refund("c1", "X", 60)]));
    assert!(matches!(&both, Judgement::Rejected { .. }), "a gate does not soften a denial: {both:?}");
    let ungated = ask(json!([lookup("c1")]));
    let Judgement::Accepted { decision: AcceptedDecision::RequestApproval { .. }, .. } = ungated else {
        panic!("{ungated:?}");
    };
    let gated = ask(json!([refund("c1", "A", 60)]));
    let Judgement::ApprovalRequired { decision: AcceptedDecision::RequestApproval { .. }, reasons, .. } = gated else {
        panic!("{gated:?}");
    };
    assert_eq!(reasons.len(), 1);
}

#[test]
fn one_denied_call_denies_a_batch_that_is_otherwise_gated() {
    assert_eq!(places(&denials(&[refund("c1", "A", 60), refund("c2", "X", 1)])), [(Unauthorized, "calls[1]")]);
}
