//! What Cedar is told of actors, actions and objects: what the operator wrote in `entities.json`, joined with what every
//! request says of itself.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{Entities, Entity, EntityUid};
use protocol::{ToolContract, resources_overlap};
use serde_json::{Map, Value, json};

use super::files::ENTITIES;
use super::request::{self, Caller, Target, uid};

/// The operator's entities, and the objects that somebody has named.
#[derive(Debug, Default)]
pub(super) struct KnownEntities {
    all: Entities,
    /// As they were written, to be joined with what a request adds.
    written: HashMap<EntityUid, Map<String, Value>>,
    /// Names of objects that `entities.json` or a policy names: a call that touches `customer:*` touches these.
    objects: BTreeSet<String>,
}

/// What requests say themselves, so that no file may: type and attributes.
const OURS: [(&str, &[&str]); 3] = [("Actor", &["name", "tenant"]), ("Object", &["name"]), ("Tool", &["name"])];

impl KnownEntities {
    /// Reads `entities.json`; `named` are the entities that policies name.
    pub fn read(text: Option<&str>, named: impl Iterator<Item = EntityUid>, problems: &mut Vec<String>) -> Self {
        let mut known = Self { objects: named.filter_map(object_name).collect(), ..Self::default() };
        let Some(text) = text else { return known };
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                problems.push(format!("{ENTITIES}: {error}"));
                return known;
            }
        };
        for (i, written) in value.as_array().into_iter().flatten().enumerate() {
            let Value::Object(object) = written else { continue };
            // What is wrong with it is said of the whole below.
            let Ok(entity) = Entity::from_json_value(written.clone(), None) else { continue };
            let uid = entity.uid();
            let ours =
                OURS.iter().filter(|(kind, _)| uid.type_name().to_string() == *kind).flat_map(|(_, names)| *names);
            for name in ours.filter(|name| entity.attr(name).is_some()) {
                problems.push(format!("{ENTITIES}: [{i}] {uid}: `{name}` is set by the runtime; leave it out"));
            }
            known.objects.extend(object_name(uid.clone()));
            known.written.insert(uid, object.clone());
        }
        match Entities::from_json_value(value, None) {
            Ok(all) => known.all = all,
            Err(error) => problems.push(format!("{ENTITIES}: {}", with_causes(&error))),
        }
        known
    }

    /// Every object that somebody has named and that this one, if it ends in `*`, takes in.
    pub fn within<'k>(&'k self, object: &'k str) -> impl Iterator<Item = &'k String> {
        let wide = object.ends_with('*');
        self.objects.iter().filter(move |name| wide && *name != object && resources_overlap(object, name))
    }

    /// All entities for one call: the actor in its tenant, the tool in its class, each object in its kind.
    pub fn of(&self, caller: &Caller<'_>, tool: &ToolContract, targets: &[Target]) -> Result<Entities, String> {
        let actor = json!({ "name": caller.actor, "tenant": caller.tenant });
        let mut joined = vec![
            self.entity(caller.uid(), actor, Some(uid("Tenant", caller.tenant.as_str())))?,
            self.entity(uid("Action", tool.tool.as_str()), json!({}), Some(request::class(tool)))?,
        ];
        for target in targets {
            let (name, kind) = match &target.object {
                Some(object) => (object.as_str(), object.split(':').next()),
                None => (tool.tool.as_str(), None),
            };
            joined.push(self.entity(target.uid(tool), json!({ "name": name }), kind.map(|kind| uid("Kind", kind)))?);
        }
        self.all.clone().upsert_entities(joined, None).map_err(|error| with_causes(&error))
    }

    /// An entity as it is written, with attributes and a parent that the request adds.
    fn entity(&self, uid: EntityUid, attributes: Value, parent: Option<EntityUid>) -> Result<Entity, String> {
        let mut entity = self.written.get(&uid).cloned().unwrap_or_default();
        entity.entry("uid").or_insert_with(|| reference(&uid));
        if let (Value::Object(all), Value::Object(more)) =
            (entity.entry("attrs").or_insert_with(|| json!({})), attributes)
        {
            all.extend(more);
        }
        if let (Value::Array(parents), Some(parent)) = (entity.entry("parents").or_insert_with(|| json!([])), parent) {
            parents.push(reference(&parent));
        }
        Entity::from_json_value(Value::Object(entity), None).map_err(|error| with_causes(&error))
    }
}

fn object_name(uid: EntityUid) -> Option<String> {
    (uid.type_name().to_string() == "Object").then(|| uid.id().unescaped().to_owned())
}

fn reference(uid: &EntityUid) -> Value {
    json!({ "type": uid.type_name().to_string(), "id": uid.id().unescaped() })
}

/// An error with what lies behind it: Cedar tells the cause apart from the place.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
