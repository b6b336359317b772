//! Files that change while the service runs.

use std::path::Path;
use std::sync::Arc;

use chassis::registry::Registry;
use chassis::{Handler, Metrics, Periodic};
use futures::executor::block_on;
use protocol::{Judgement, Verdict};
use schemas::{Codec, CodecConfig};
use serde_json::json;

use super::records::record;
use super::world::*;
use crate::policy::Policy;
use crate::{Reload, ValidationHandler};

const RELOADS: &str = "turnwright.reloads";

struct Service {
    directory: tempfile::TempDir,
    codec: Arc<Codec>,
    handler: ValidationHandler,
    reload: Reload,
    metrics: Metrics,
}

impl Service {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "agents.yaml", AGENTS);
        write(directory.path(), "tools.yaml", TOOLS);
        write(
            directory.path(),
            "ingress.yaml",
            "ingress: [{carries: invocations, tenants: [acme]}, {carries: controls, tenants: [acme]}]",
        );
        std::fs::create_dir(directory.path().join("policies")).unwrap();
        write(directory.path(), "policies/main.cedar", PERMIT);
        let registry = Registry::read(directory.path()).unwrap();
        let policy = Arc::new(Policy::read(directory.path()).unwrap());
        let (codec, metrics) = (Arc::new(Codec::new(CodecConfig::default())), Metrics::silent("validation"));
        let handler = ValidationHandler::new(codec.clone(), &registry, policy, metrics.clone()).unwrap();
        let reload = handler.reload(directory.path().to_owned());
        Self { directory, codec, handler, reload, metrics }
    }

    fn write(&self, name: &str, text: &str) {
        write(self.directory.path(), name, text);
    }

    /// So many looks at the files.
    fn look(&self, times: usize) {
        (0..times).for_each(|_| drop(block_on(self.reload.tick()).unwrap()));
    }

    /// The verdict on one lookup.
    fn verdict(&self) -> Verdict {
        let decision = proposed(turn(), batch(&[call("c1", "lookup", json!({"q": "a"}))]));
        let mut reply = block_on(self.handler.handle(&[record(&self.codec, &decision)])).unwrap();
        self.codec.decode(&self.codec.arrival(reply.publish.remove(0))).unwrap()
    }

    fn accepts(&self) -> bool {
        matches!(self.verdict().judgement, Judgement::Accepted { .. })
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).unwrap();
}

#[test]
fn a_changed_policy_is_in_force_after_the_second_look_and_verdicts_say_so() {
    let service = Service::start();
    let before = service.verdict();
    assert!(service.accepts());
    service.write("policies/main.cedar", "");
    service.look(1);
    assert!(service.accepts(), "it may still be half written");
    service.look(1);
    let after = service.verdict();
    assert!(!service.accepts());
    assert_ne!(after.policy_digest, before.policy_digest);
    assert_eq!(after.policy_digest, Policy::read(service.directory.path()).unwrap().digest);
    assert_eq!(after.registry_digest, before.registry_digest);
    service.look(5);
    assert_eq!(service.metrics.total(RELOADS), 1);
}

#[test]
fn a_changed_registry_is_in_force_too() {
    let service = Service::start();
    let before = service.verdict();
    service.write("tools.yaml", &TOOLS.replace("^[a-z]+$", "^[b-z]+$"));
    service.look(2);
    assert!(!service.accepts(), "the argument schema is the new one");
    assert_ne!(service.verdict().registry_digest, before.registry_digest);
}

#[test]
fn files_that_cannot_be_used_are_refused_once_and_what_was_in_force_stays() {
    let service = Service::start();
    let before = service.verdict();
    for (name, text) in [
        ("policies/main.cedar", "permit(principal, action"),
        ("policies/main.cedar", "@approval(\"x\") permit(principal, action, resource);"),
        ("tools.yaml", "tools: [{name: x}]"),
        ("tools.yaml", &TOOLS.replace("^[a-z]+$", "(")),
    ] {
        let refused = service.metrics.total(RELOADS);
        let good = std::fs::read_to_string(service.directory.path().join(name)).unwrap();
        service.write(name, text);
        service.look(5);
        assert_eq!(service.verdict(), before, "{name}: {text}");
        assert_eq!(service.metrics.total(RELOADS), refused + 1, "{name}: {text}");
        service.write(name, &good);
        service.look(2);
        assert_eq!(service.metrics.total(RELOADS), refused + 1, "what is in force already is not taken again");
    }
    std::fs::remove_dir_all(service.directory.path().join("policies")).unwrap();
    service.look(3);
    assert_eq!(service.verdict(), before);
}
