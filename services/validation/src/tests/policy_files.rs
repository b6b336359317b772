//! Policy files as a whole: what is refused at start, by which name, and what the digest covers.

use serde_json::json;

use super::world::*;
use crate::policy::{Policy, PolicyFiles};
use crate::{DecisionLimits, Judge};

/// What is wrong with one policy file.
fn problems(text: &str) -> Vec<String> {
    Policy::compile(&PolicyFiles::of(text)).err().map(|problems| problems.0).unwrap_or_default()
}

#[test]
fn every_problem_is_reported_with_its_file_and_policy() {
    let files = PolicyFiles {
        policies: vec![
            ("policies/a.cedar".into(), "permit(principal, action, resource)\nwhen { context. };\n".into()),
            ("policies/b.cedar".into(), "@aproval(\"x\") forbid(principal, action, resource);".into()),
            (
                "policies/c.cedar".into(),
                "@id(\"one\") @approval(\"\") @four_eyes(\"yes\") @ttl(\"soon\") permit(principal, action, resource);"
                    .into(),
            ),
        ],
        entities: Some("[{]".into()),
        schema: None,
    };
    let found = Policy::compile(&files).unwrap_err().0;
    let parts = [
        "policies/a.cedar:2:",
        "policies/b.cedar: b#1: `@aproval`",
        "say why",
        "belongs to a `forbid`",
        "@four_eyes",
        "@ttl",
        "entities.json",
    ];
    assert_eq!(found.len(), parts.len(), "{found:#?}");
    for (problem, part) in found.iter().zip(parts) {
        assert!(problem.contains(part), "{part}: {found:#?}");
    }
}

#[test]
fn annotations_that_would_silently_do_nothing_are_refused() {
    let refused = |text: &str, part: &str| {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
    };
    refused("@four_eyes(\"true\") forbid(principal, action, resource);", "`@four_eyes` needs `@approval");
    refused("@approval(\"x\") @four_eye(\"true\") forbid(principal, action, resource);", "`@four_eye` is not known");
    refused("@approval(\"x\") permit(principal, action, resource);", "belongs to a `forbid`");
    refused("permit(principal == ?principal, action, resource);", "template");
    refused(
        "@id(\"a\") permit(principal, action, resource); @id(\"a\") permit(principal, action, resource);",
        "called `a`",
    );
    assert_eq!(problems("@id(\"a\") @description(\"b\") permit(principal, action, resource);"), Vec::<String>::new());
}

#[test]
fn what_the_runtime_says_of_an_entity_no_file_may() {
    let entities = json!([{"uid": {"type": "Actor", "id": "acme/ada"}, "attrs": {"tenant": "globex"}, "parents": []}]);
    let files = PolicyFiles { entities: Some(entities.to_string()), ..PolicyFiles::of(PERMIT) };
    let found = Policy::compile(&files).unwrap_err().0;
    assert!(found.len() == 1 && found[0].contains("`tenant` is set by the runtime"), "{found:?}");
}

#[test]
fn a_schema_finds_a_misspelt_attribute_before_any_call_does() {
    let schema = "entity Tenant, Kind; entity Actor in [Tenant] { name: String, tenant: String };
                  entity Object in [Kind] { name: String };
                  action refund appliesTo { principal: [Actor], resource: [Object],
                    context: { tenant: String, agent: String, task_type: String, tool: String, access: String,
                               arguments: { amount?: Long, order: String } } };";
    let compile = |text: &str| Policy::compile(&PolicyFiles { schema: Some(schema.into()), ..PolicyFiles::of(text) });
    let right = r#"forbid(principal, action == Action::"refund", resource)
                   when { context.arguments has amount && context.arguments.amount > 1 };"#;
    assert!(compile(right).is_ok(), "{:?}", compile(right).err());
    let found = compile(&right.replace("arguments.amount", "arguments.amuont")).unwrap_err().0;
    assert!(found[0].contains("amuont"), "{found:?}");
    let files = PolicyFiles { schema: Some("entity;".into()), ..PolicyFiles::of(PERMIT) };
    assert!(Policy::compile(&files).unwrap_err().0[0].starts_with("policies/schema.cedarschema"));
}

#[test]
fn a_directory_without_a_policy_is_an_error_that_says_what_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let said = Policy::read(directory.path()).unwrap_err().to_string();
    for part in ["policies", "permit(principal in Tenant::\"your-tenant\", action, resource);", "turnwright init"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let folder = directory.path().join("policies");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("cases.yaml"), "[]").unwrap();
    assert!(Policy::read(directory.path()).is_err());
    std::fs::write(folder.join("none.cedar"), "// Nothing is allowed here.").unwrap();
    assert!(Policy::read(directory.path()).is_ok(), "a file may say so");
}

#[test]
fn the_digest_covers_every_file_and_its_name() {
    let files = || PolicyFiles::of(PERMIT);
    let digests = [
        files().digest(),
        PolicyFiles::of("").digest(),
        PolicyFiles { entities: Some("[]".into()), ..files() }.digest(),
        PolicyFiles { schema: Some("[]".into()), ..files() }.digest(),
        PolicyFiles { policies: vec![("policies/other.cedar".into(), PERMIT.into())], ..files() }.digest(),
    ];
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "{i}");
    }
}

#[test]
fn a_tool_may_not_be_called_like_a_class_of_tools() {
    let tools = "tools: [{name: read, arguments: {}, run: {kind: lookup, argument: q, rows: {}}}]";
    let found = Judge::new(&registry(tools), policy(PERMIT), DecisionLimits::default()).err().unwrap().0;
    assert!(found.len() == 1 && found[0].contains("tools[0] (read): name"), "{found:?}");
}
