//! JSON Schema 2020-12, and what is wrong with a value as findings. References stay inside their document, and patterns
//! run in linear time, because an output schema comes from a caller and its instance from a model.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Draft, PatternOptions, Validator};
use protocol::{Finding, FindingCode};
use serde_json::Value;

/// The longest message of a finding, in bytes.
const MAX_MESSAGE_BYTES: usize = 400;
/// The longest path of a finding, in bytes.
const MAX_PATH_BYTES: usize = 400;

/// The tools whose argument schemas do not compile, all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SchemaProblems(pub Vec<String>);

/// A compiled schema.
pub(crate) struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema as it stands. The error says why that is not possible.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .offline();
        let validator =
            options.build(schema).map_err(|error| bounded(&error.masked().to_string(), MAX_MESSAGE_BYTES))?;
        Ok(Self { validator })
    }

    /// Compiles a tool's argument schema. Fields that the schema does not know are refused at its top level unless it
    /// says something about them itself (`additionalProperties` or `unevaluatedProperties`); nested objects follow the
    /// schema's own words. `unevaluatedProperties` rather than `additionalProperties` is what closes it, so that fields
    /// declared behind `$ref`, `allOf` or `if` count as known.
    pub fn compile_arguments(schema: &Value) -> Result<Self, String> {
        let mut schema = schema.clone();
        if let Value::Object(object) = &mut schema
            && !object.contains_key("additionalProperties")
            && !object.contains_key("unevaluatedProperties")
        {
            object.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
        }
        Self::compile(&schema)
    }

    /// Adds everything that is wrong with `value`, at most `most` findings, each under `code` at its path below `at`.
    /// Messages never repeat the value.
    pub fn judge(&self, value: &Value, code: FindingCode, at: &str, most: usize, findings: &mut Vec<Finding>) {
        for error in self.validator.iter_errors(value).take(most) {
            let path = path_of(at, error.instance_path());
            let one = |code, path: String, message: &str| {
                Finding::new(code, bounded(&path, MAX_PATH_BYTES), bounded(message, MAX_MESSAGE_BYTES))
            };
            match error.kind() {
                ValidationErrorKind::Required { property } => {
                    let name = property.as_str().unwrap_or_default();
                    findings.push(one(code, below(&path, name), "is required"));
                }
                ValidationErrorKind::AdditionalProperties { unexpected }
                | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                    let names = unexpected.iter().take(most);
                    findings.extend(
                        names.map(|name| one(FindingCode::UnknownField, below(&path, name), "is not a known field")),
                    );
                }
                _ => findings.push(one(code, path, &error.masked_with("the value").to_string())),
            }
        }
    }
}

/// The path of an error in the decision: `calls[1].arguments.order_id`.
fn path_of(at: &str, location: &Location) -> String {
    location.segments().fold(at.to_owned(), |path, segment| match segment {
        LocationSegment::Property(name) => below(&path, &name),
        LocationSegment::Index(index) => format!("{path}[{index}]"),
    })
}

/// The path of a field; a name that could be mistaken for more path stands in quotes.
pub(crate) fn below(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match plain {
        true => format!("{path}.{name}"),
        false => format!("{path}[{}]", Value::from(bounded(name, MAX_PATH_BYTES))),
    }
}

/// `text`, cut at a character to at most so many bytes.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}
