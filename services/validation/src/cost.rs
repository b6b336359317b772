//! How much work a caller's schema may cause (S8). References can multiply: twenty definitions that each name the next one
//! twice take seconds for one value, forty take years.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The most parts a schema may have once its references are followed.
const MAX_PARTS: u64 = 20_000;
/// How many references one after another are followed: as deep as an answer can be, so that recursion over its depth is
/// counted whole.
const MAX_HOPS: u32 = 33;

/// Refuses a schema that grows too large, and references that this count cannot follow.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let mut count = Count { root: schema, known: HashMap::new() };
    match count.parts(schema, MAX_HOPS)? {
        parts if parts <= MAX_PARTS => Ok(()),
        _ => Err(format!("its references multiply to more than {MAX_PARTS} parts")),
    }
}

struct Count<'s> {
    root: &'s Value,
    /// Parts behind a reference, by its pointer and how many hops were left.
    known: HashMap<(&'s str, u32), u64>,
}

impl<'s> Count<'s> {
    fn parts(&mut self, value: &'s Value, hops: u32) -> Result<u64, String> {
        let mut parts = 1_u64;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(list) => {
                for item in list {
                    parts = parts.saturating_add(self.parts(item, hops)?);
                }
            }
            Value::Object(object) => {
                self.supported(object, value)?;
                for (name, item) in object {
                    let more = match item {
                        Value::String(pointer) if name == "$ref" => self.behind(pointer, hops)?,
                        // Definitions cost nothing until something refers to them.
                        Value::Object(_) if name == "$defs" || name == "definitions" => 1,
                        _ => self.parts(item, hops)?,
                    };
                    parts = parts.saturating_add(more);
                }
            }
        }
        Ok(parts)
    }

    fn behind(&mut self, pointer: &'s str, hops: u32) -> Result<u64, String> {
        let target = pointer.strip_prefix('#').and_then(|path| self.root.pointer(path));
        let target =
            target.ok_or_else(|| format!("`$ref: {pointer}`: only `#/…` inside the schema can be followed"))?;
        if hops == 0 {
            return Ok(1);
        }
        if let Some(parts) = self.known.get(&(pointer, hops)) {
            return Ok(*parts);
        }
        let parts = self.parts(target, hops - 1)?;
        self.known.insert((pointer, hops), parts);
        Ok(parts)
    }

    /// Other ways to refer, and an ID inside, would lead this count astray.
    fn supported(&self, object: &Map<String, Value>, value: &Value) -> Result<(), String> {
        let inner = !std::ptr::eq(value, self.root);
        let named = |name: &&str| object.get(*name).is_some_and(Value::is_string);
        match ["$dynamicRef", "$recursiveRef"].iter().copied().chain(inner.then_some("$id")).find(|name| named(name)) {
            Some(name) => Err(format!("`{name}` is not supported in an output schema; use `$ref: #/…`")),
            None => Ok(()),
        }
    }
}
