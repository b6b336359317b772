//! A final answer against the output schema of its request and the validators of its agent's profile (M14).

use chassis::registry::AnswerRule;
use protocol::{Finding, FindingCode};
use serde_json::Value;

use crate::cost;
use crate::schema::{Schema, below};

/// A profile's validator, ready to run.
pub(crate) struct AnswerCheck {
    rule: AnswerRule,
    /// Of a [`AnswerRule::Pattern`].
    pattern: Option<Schema>,
}

impl AnswerCheck {
    /// The error says why the pattern cannot be used.
    pub fn compile(rule: &AnswerRule) -> Result<Self, String> {
        let pattern = match rule {
            AnswerRule::Pattern { pattern, .. } => {
                Some(Schema::compile(&serde_json::json!({ "type": "string", "pattern": pattern }))?)
            }
            AnswerRule::RequiredText { .. } | AnswerRule::ForbiddenText { .. } | AnswerRule::MaxBytes { .. } => None,
        };
        Ok(Self { rule: rule.clone(), pattern })
    }

    fn judge(&self, answer: &Value, findings: &mut Vec<Finding>) {
        let path = self.rule.at().split('/').skip(1).fold("answer".to_owned(), |path, token| {
            // RFC 6901: ~1 is a slash, ~0 a tilde.
            below(&path, &token.replace("~1", "/").replace("~0", "~"))
        });
        let mut wrong =
            |message: String| findings.push(Finding::new(FindingCode::InvalidAnswer, path.clone(), message));
        let Some(value) = answer.pointer(self.rule.at()) else {
            match &self.rule {
                AnswerRule::RequiredText { .. } | AnswerRule::Pattern { .. } => wrong("is required".to_owned()),
                AnswerRule::ForbiddenText { .. } | AnswerRule::MaxBytes { .. } => {}
            }
            return;
        };
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match &self.rule {
            AnswerRule::RequiredText { text: wanted, .. } if !text().contains(wanted) => {
                wrong(format!("must contain `{wanted}`"));
            }
            AnswerRule::ForbiddenText { text: unwanted, .. } if text().contains(unwanted) => {
                wrong(format!("must not contain `{unwanted}`"));
            }
            AnswerRule::MaxBytes { bytes, .. } if text().len() > *bytes => {
                wrong(format!("{} bytes are more than the limit of {bytes}", text().len()));
            }
            AnswerRule::RequiredText { .. } | AnswerRule::ForbiddenText { .. } | AnswerRule::MaxBytes { .. } => {}
            AnswerRule::Pattern { .. } => {
                if let Some(pattern) = &self.pattern {
                    pattern.judge(value, FindingCode::InvalidAnswer, &path, 1, findings);
                }
            }
        }
    }
}

/// Everything that is wrong with a final answer; of the schema, at most `most` findings. A schema that does not compile is
/// a finding too: the model cannot mend it, and the run then ends with a reason that names it.
pub(crate) fn findings(answer: &Value, schema: Option<&Value>, checks: &[AnswerCheck], most: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    match schema.map(compile) {
        None => {}
        Some(Ok(schema)) => schema.judge(answer, FindingCode::InvalidAnswer, "answer", most, &mut findings),
        Some(Err(why)) => {
            let message = format!("is not a JSON Schema 2020-12 that can be used: {why}");
            findings.push(Finding::new(FindingCode::InvalidAnswer, "output_schema", message));
        }
    }
    checks.iter().for_each(|check| check.judge(answer, &mut findings));
    findings
}

/// A caller's schema may not cost more than a bounded number of steps per value of the answer.
fn compile(schema: &Value) -> Result<Schema, String> {
    cost::check(schema).and_then(|()| Schema::compile(schema))
}
