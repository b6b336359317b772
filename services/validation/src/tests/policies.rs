//! What policies say of single calls: who, in which tenant, by which operation, on which object.

use protocol::{Template, ToolContract};
use serde_json::{Value, json};

use super::world::*;
use crate::policy::{Access, Caller, Gate, Outcome, Permission, Policy, PolicyFiles, Ruling, Touched};

/// A tool of the standard registry.
fn tool(name: &str) -> ToolContract {
    standard().tool(&name.into()).unwrap().contract()
}

fn rule_as(tenant: &str, actor: &str, policy: &Policy, tool: &ToolContract, arguments: Value) -> Ruling {
    let (tenant, actor, agent, task_type) = (tenant.into(), actor.into(), "refunds".into(), "refund".into());
    let caller = Caller { tenant: &tenant, actor: &actor, agent: &agent, task_type: &task_type };
    policy.rule(&caller, tool, &arguments).unwrap()
}

/// What a policy says of Ada's call in the tenant acme.
fn says(text: &str, name: &str, arguments: Value) -> Permission {
    rule_as("acme", "ada", &policy(text), &tool(name), arguments).permission()
}

fn with_entities(text: &str, entities: Value) -> Policy {
    let files = PolicyFiles { entities: Some(entities.to_string()), ..PolicyFiles::of(text) };
    Policy::compile(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

fn order() -> Value {
    json!({"order": "A-7", "amount": 5})
}

#[test]
fn nothing_is_allowed_that_no_policy_permits() {
    assert_eq!(says("", "refund", order()), Permission::Deny);
    assert_eq!(says("forbid(principal, action, resource);", "refund", order()), Permission::Deny);
    assert_eq!(says(PERMIT, "refund", order()), Permission::Allow);
    let both = "permit(principal, action, resource); forbid(principal, action, resource);";
    assert_eq!(says(both, "refund", order()), Permission::Deny);
}

#[test]
fn a_call_is_judged_by_tenant_actor_operation_and_object() {
    for (allows, text) in [
        (true, r#"permit(principal in Tenant::"acme", action, resource);"#),
        (false, r#"permit(principal in Tenant::"globex", action, resource);"#),
        (true, r#"permit(principal == Actor::"acme/ada", action, resource);"#),
        (false, r#"permit(principal == Actor::"globex/ada", action, resource);"#),
        (
            true,
            r#"permit(principal, action, resource) when { principal.name == "ada" && principal.tenant == "acme" };"#,
        ),
        (true, r#"permit(principal, action == Action::"refund", resource);"#),
        (false, r#"permit(principal, action == Action::"lookup", resource);"#),
        (true, r#"permit(principal, action in Action::"effect", resource);"#),
        (false, r#"permit(principal, action in Action::"read", resource);"#),
        (true, r#"permit(principal, action, resource == Object::"order:A-7");"#),
        (false, r#"permit(principal, action, resource == Object::"order:A-8");"#),
        (true, r#"permit(principal, action, resource in Kind::"order");"#),
        (false, r#"permit(principal, action, resource in Kind::"customer");"#),
        (true, r#"permit(principal, action, resource) when { resource.name like "order:A-*" };"#),
        (true, r#"permit(principal, action, resource) when { context.access == "write" };"#),
        (
            true,
            r#"permit(principal, action, resource) when { context.agent == "refunds" && context.task_type == "refund" };"#,
        ),
        (true, r#"permit(principal, action, resource) when { context.tenant == "acme" && context.tool == "refund" };"#),
    ] {
        assert_eq!(says(text, "refund", order()) == Permission::Allow, allows, "{text}");
    }
}

#[test]
fn an_actor_of_another_tenant_is_another_actor_even_if_a_name_holds_the_separator() {
    let text = r#"permit(principal == Actor::"a/b/c", action, resource);"#;
    let granted =
        |tenant, actor| rule_as(tenant, actor, &policy(text), &tool("lookup"), json!({"q": "x"})).permission();
    assert_eq!(granted("a", "b/c"), Permission::Allow);
    assert_eq!(granted("a/b", "c"), Permission::Deny);
}

#[test]
fn a_tool_that_declares_no_object_is_its_own() {
    let text = r#"permit(principal, action, resource == Tool::"lookup") when { context.access == "read" };"#;
    assert_eq!(says(text, "lookup", json!({"q": "a"})), Permission::Allow);
    assert_eq!(says(text, "refund", order()), Permission::Deny);
}

#[test]
fn every_object_of_a_call_must_be_permitted() {
    let mut moves = tool("refund");
    moves.reads = vec![Template("customer:{customer}".into()), Template("order:{order}".into())];
    let text = r#"permit(principal, action, resource) when { resource.name != "customer:7" };"#;
    let call = |customer| rule_as("acme", "ada", &policy(text), &moves, json!({"customer": customer, "order": "A-7"}));
    assert_eq!(call(6).permission(), Permission::Allow);
    let denied = call(7);
    assert_eq!(denied.permission(), Permission::Deny);
    let touched: Vec<_> = denied.touched.iter().map(|one| (one.access, one.object.as_deref().unwrap())).collect();
    assert_eq!(touched, [(Access::Read, "customer:7"), (Access::Read, "order:A-7"), (Access::Write, "order:A-7")]);
    let permissions: Vec<_> = denied.touched.iter().map(|one| one.outcome.permission()).collect();
    assert_eq!(permissions, [Permission::Deny, Permission::Allow, Permission::Allow]);
}

#[test]
fn a_call_on_everything_of_a_kind_touches_whatever_a_policy_or_an_entity_names() {
    let mut all = tool("refund");
    all.writes = vec![Template("order:*".into())];
    let text = r#"permit(principal, action, resource); forbid(principal, action, resource == Object::"order:A-1");"#;
    assert_eq!(rule_as("acme", "ada", &policy(text), &all, json!({})).permission(), Permission::Deny);
    let text = "permit(principal, action, resource); forbid(principal, action, resource) when { resource has locked };";
    let entities = json!([{"uid": {"type": "Object", "id": "order:A-2"}, "attrs": {"locked": true}, "parents": []}]);
    let policy = with_entities(text, entities);
    assert_eq!(rule_as("acme", "ada", &policy, &all, json!({})).permission(), Permission::Deny);
    assert_eq!(rule_as("acme", "ada", &policy, &tool("refund"), order()).permission(), Permission::Allow);
}

#[test]
fn groups_and_attributes_come_from_the_entities_and_join_what_a_request_says() {
    let entities = json!([
        {"uid": {"type": "Actor", "id": "acme/ada"}, "attrs": {"level": 3}, "parents": [{"type": "Group", "id": "support"}]},
        {"uid": {"type": "Group", "id": "support"}, "attrs": {}, "parents": [{"type": "Group", "id": "staff"}]},
        {"uid": {"__entity": {"type": "Action", "id": "refund"}}, "attrs": {}, "parents": [{"type": "Action", "id": "money"}]},
        {"uid": {"type": "Object", "id": "order:A-7"}, "attrs": {"owner": {"__entity": {"type": "Actor", "id": "acme/ada"}}},
         "parents": [], "tags": {"region": "eu"}},
    ]);
    let text = r#"
permit(principal in Group::"staff", action in Action::"money", resource in Kind::"order")
when { principal.level > 2 && principal in Tenant::"acme" && action in Action::"effect" && resource.owner == principal
       && resource.getTag("region") == "eu" };"#;
    let policy = with_entities(text, entities);
    assert_eq!(rule_as("acme", "ada", &policy, &tool("refund"), order()).permission(), Permission::Allow);
    assert_eq!(rule_as("acme", "grace", &policy, &tool("refund"), order()).permission(), Permission::Deny);
    assert_eq!(rule_as("globex", "ada", &policy, &tool("refund"), order()).permission(), Permission::Deny);
}

#[test]
fn arguments_are_a_record_without_nulls_and_numbers_have_one_type() {
    let holds = |condition: &str, arguments: Value| {
        let text = format!("permit(principal, action, resource) when {{ {condition} }};");
        says(&text, "audit", arguments) == Permission::Allow
    };
    let arguments = json!({"case": {"id": "9"}, "n": 7, "big": 9_007_199_254_740_991_i64, "float": 5.0, "part": 2.5, "none": null,
                           "tags": ["a", "b", "a", null], "deep": {"list": [{"x": 1}]}, "fine": 0.00001, "huge": 1e300});
    for condition in [
        "context.arguments.n == 7 && context.arguments.float == 5",
        "context.arguments.big == 9007199254740991",
        "!(context.arguments has part) && !(context.arguments has none)",
        r#"context.arguments.tags.contains("a") && !context.arguments.tags.contains("c")"#,
        "context.arguments.deep.list.contains({x: 1})",
        r#"context.decimals.part == decimal("2.5") && context.decimals.n == decimal("7.0")"#,
        r#"context.decimals.part.lessThan(decimal("2.51"))"#,
        "!(context.decimals has fine) && !(context.decimals has huge)",
    ] {
        assert!(holds(condition, arguments.clone()), "{condition}");
    }
    assert!(!holds("context.arguments.n == 8", arguments));
}

#[test]
fn an_argument_cannot_pass_for_an_entity_or_a_decimal() {
    let forged = json!({"case": {"id": "9", "who": {"__entity": {"type": "Actor", "id": "acme/root"}},
                                 "much": {"__extn": {"fn": "decimal", "arg": "1.0"}}}});
    let text = r#"permit(principal, action, resource) when { context.arguments.case.who == Actor::"acme/root" };"#;
    assert_eq!(says(text, "audit", forged.clone()), Permission::Deny);
    let text = r#"permit(principal, action, resource) when { context.arguments.case.much == decimal("1.0") };"#;
    assert_eq!(says(text, "audit", forged), Permission::Deny);
}

#[test]
fn a_forbid_that_cannot_be_evaluated_denies_and_a_permit_that_cannot_grants_nothing() {
    let text = r#"@id("all") permit(principal, action, resource);
                  @id("limit") forbid(principal, action, resource) when { context.arguments.amount > 100 };"#;
    let without = rule_as("acme", "ada", &policy(text), &tool("refund"), json!({"order": "A-7"}));
    assert_eq!(without.permission(), Permission::Deny);
    let Outcome::Denied { by, broken } = &without.touched[0].outcome else { panic!("{without:?}") };
    assert!(by.is_empty() && broken.len() == 1 && broken[0].policy == "limit", "{without:?}");
    assert!(broken[0].why.contains("amount"), "{without:?}");
    assert_eq!(says(text, "refund", order()), Permission::Allow);
    let text = "permit(principal, action, resource) when { context.arguments.amount < 100 };";
    assert_eq!(says(text, "refund", json!({"order": "A-7"})), Permission::Deny);
}

const GATES: &str = r#"
@id("all") permit(principal in Tenant::"acme", action, resource);
@id("never") forbid(principal, action, resource) when { context.arguments.amount > 1000 };
@id("large") @approval("over 100") @four_eyes("true") @ttl("PT1H")
forbid(principal, action == Action::"refund", resource) when { context.arguments.amount > 100 };
@id("vip") @approval("a special order")
forbid(principal, action, resource == Object::"order:V-1");
"#;

#[test]
fn a_gate_gates_what_is_allowed_and_nothing_else() {
    let refund = |order: &str, amount: i64| {
        let arguments = json!({"order": order, "amount": amount});
        rule_as("acme", "ada", &policy(GATES), &tool("refund"), arguments)
    };
    assert_eq!(refund("A-7", 100).permission(), Permission::Allow);
    assert_eq!(refund("A-7", 101).permission(), Permission::Gate);
    assert_eq!(refund("V-1", 1).permission(), Permission::Gate);
    assert_eq!(refund("V-1", 1_001).permission(), Permission::Deny, "a denial stays one");
    let Touched { outcome: Outcome::Gated { by, gates }, .. } = &refund("V-1", 500).touched[0] else {
        panic!("no gate")
    };
    assert_eq!(by, &["all"]);
    let names = |gates: &[Gate]| gates.iter().map(|gate| gate.policy.clone()).collect::<Vec<_>>();
    assert_eq!(names(gates), ["large", "vip"]);
    assert_eq!(gates[0].approval.reason, "over 100");
    assert_eq!((gates[0].approval.four_eyes, gates[0].approval.ttl_ms), (true, Some(3_600_000)));
    assert_eq!((gates[1].approval.four_eyes, gates[1].approval.ttl_ms), (false, None));
    let foreign = rule_as("globex", "ada", &policy(GATES), &tool("refund"), json!({"order": "V-1", "amount": 1}));
    assert_eq!(foreign.permission(), Permission::Deny, "a gate grants nothing by itself");
}

#[test]
fn a_gate_that_cannot_be_evaluated_denies() {
    let text = r#"permit(principal, action, resource);
                  @approval("x") forbid(principal, action, resource) when { context.arguments.amount > 100 };"#;
    assert_eq!(says(text, "refund", json!({"order": "A-7"})), Permission::Deny);
    assert_eq!(says(text, "refund", json!({"order": "A-7", "amount": 100.5})), Permission::Deny, "no fraction in it");
}
