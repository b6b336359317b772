//! A final answer against the output schema of its request (M14).

use protocol::{Finding, FindingCode};
use serde_json::Value;

use crate::cost;
use crate::schema::Schema;

/// Everything that is wrong with a final answer, at most `most` findings. A schema that does not compile is a finding
/// too: the model cannot mend it, and the run then ends with a reason that names it.
pub(crate) fn findings(answer: &Value, schema: Option<&Value>, most: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    match schema.map(compile) {
        None => {}
        Some(Ok(schema)) => schema.judge(answer, FindingCode::InvalidAnswer, "answer", most, &mut findings),
        Some(Err(why)) => {
            let message = format!("is not a JSON Schema 2020-12 that can be used: {why}");
            findings.push(Finding::new(FindingCode::InvalidAnswer, "output_schema", message));
        }
    }
    findings
}

/// A caller's schema may not cost more than a bounded number of steps per value of the answer.
fn compile(schema: &Value) -> Result<Schema, String> {
    cost::check(schema).and_then(|()| Schema::compile(schema))
}
