//! Ten thousand decisions of an attacker, each hostile in a way that is known beforehand. None may pass, each must be told
//! what is wrong with it by code, and every way must really have occurred.

use std::collections::BTreeMap;

use protocol::FindingCode::{self, *};
use protocol::{Judgement, TurnReady};
use serde_json::{Value, json};

use super::world::*;
use crate::Judge;

const DECISIONS: usize = 10_000;
const SEED: u64 = 0x7475_726e_7772_6967;

/// Everything is allowed in acme but orders that begin with X; large refunds wait for a person, which excuses nothing.
const POLICY: &str = r#"
@id("acme") permit(principal in Tenant::"acme", action, resource);
@id("locked") forbid(principal, action, resource in Kind::"order") when { resource.name like "order:X*" };
@id("large") @approval("more than 50")
forbid(principal, action == Action::"refund", resource)
when { context.arguments has amount && context.arguments.amount > 50 };
"#;

/// Numbers by chance, the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.roll(of.len())]
    }

    fn text(&mut self, longest: usize) -> String {
        let alphabet = ['a', 'z', 'Q', '7', '-', ' ', '"', '\\', '{', '}', '\u{0}', '\u{202e}', 'é', '界'];
        (0..1 + self.roll(longest)).map(|_| *self.pick(&alphabet)).collect()
    }
}

/// The ways in which a decision is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hostility {
    UnknownKind,
    UnknownVersion,
    UnknownField,
    DuplicateCallId,
    MissingCallId,
    EmptyBatch,
    ForeignTool,
    SchemaViolation,
    DepthBomb,
    SizeBomb,
    NodeBomb,
    BatchBomb,
    DeniedObject,
    DeniedTenant,
    Overspending,
    DuplicateKey,
    InexactNumber,
    BrokenText,
}

use Hostility as H;

const ALL: [Hostility; 18] = [
    H::UnknownKind,
    H::UnknownVersion,
    H::UnknownField,
    H::DuplicateCallId,
    H::MissingCallId,
    H::EmptyBatch,
    H::ForeignTool,
    H::SchemaViolation,
    H::DepthBomb,
    H::SizeBomb,
    H::NodeBomb,
    H::BatchBomb,
    H::DeniedObject,
    H::DeniedTenant,
    H::Overspending,
    H::DuplicateKey,
    H::InexactNumber,
    H::BrokenText,
];

impl Hostility {
    /// The codes that name it.
    fn codes(self) -> &'static [FindingCode] {
        match self {
            Self::UnknownKind => &[UnknownKind],
            Self::UnknownVersion => &[UnknownVersion],
            Self::UnknownField => &[UnknownField],
            Self::DuplicateCallId => &[DuplicateCallId],
            Self::MissingCallId => &[MissingCallId],
            Self::EmptyBatch => &[EmptyBatch],
            Self::ForeignTool => &[UnknownTool, ToolNotAllowed],
            Self::SchemaViolation => &[InvalidArguments, UnknownField, Malformed],
            Self::DepthBomb => &[TooDeep],
            Self::SizeBomb | Self::NodeBomb => &[TooLarge],
            Self::BatchBomb => &[TooManyCalls],
            Self::DeniedObject | Self::DeniedTenant => &[Unauthorized],
            Self::Overspending => &[BudgetExceeded],
            Self::DuplicateKey | Self::InexactNumber => &[Malformed],
            Self::BrokenText => &[Malformed, NoDecision, UnknownVersion, UnknownKind],
        }
    }
}

/// A call that nothing is wrong with; one in three needs an approval.
fn good_call(dice: &mut Dice, n: usize) -> Value {
    let id = format!("c{n}");
    match dice.roll(3) {
        0 => call(&id, "lookup", json!({"q": "abc"})),
        1 => call(&id, "refund", json!({"order": format!("A-{n}"), "amount": dice.pick(&[1, 99])})),
        _ => call(&id, "audit", json!({"case": {"id": n}, "note": dice.text(9)})),
    }
}

/// Lists and objects, one inside the other.
fn nested(levels: usize) -> String {
    let (open, close): (Vec<_>, Vec<_>) =
        (0..levels).map(|level| if level % 2 == 0 { ("[", "]") } else { ("{\"x\":", "}") }).unzip();
    open.into_iter().chain(["1"]).chain(close.into_iter().rev()).collect()
}

/// A decision in the making.
struct Attack {
    turn: TurnReady,
    body: Value,
    /// Takes the body's place at the end.
    text: Option<String>,
    /// JSON that takes the fuse's place in the text, so that no bomb is copied on its way.
    bomb: Option<String>,
}

const FUSE: &str = "\u{1f4a3}";

impl Attack {
    fn new(dice: &mut Dice) -> Self {
        let calls: Vec<Value> = (0..1 + dice.roll(3)).map(|n| good_call(dice, n)).collect();
        let kind = dice.pick(&["tool_calls", "tool_calls", "request_approval"]);
        let mut turn = turn();
        turn.scope.round = protocol::Round(0);
        Self { turn, body: json!({"schema_version": 1, "kind": kind, "calls": calls}), text: None, bomb: None }
    }

    /// One of its calls, or a new one.
    fn call(&mut self, dice: &mut Dice) -> &mut Value {
        let calls = self.body["calls"].as_array_mut().unwrap();
        if calls.is_empty() {
            calls.push(good_call(dice, 0));
        }
        let at = dice.roll(calls.len());
        &mut calls[at]
    }

    fn plant(&mut self, dice: &mut Dice, bomb: String) {
        *self.call(dice) = call("c9", "audit", json!({"case": {"id": 1}, "bomb": FUSE}));
        self.bomb = Some(bomb);
    }

    fn into_text(self) -> String {
        let text = self.text.unwrap_or_else(|| self.body.to_string());
        match self.bomb {
            Some(bomb) => text.replacen(&format!("\"{FUSE}\""), &bomb, 1),
            None => text,
        }
    }

    fn apply(&mut self, hostility: Hostility, dice: &mut Dice) {
        match hostility {
            H::UnknownKind => {
                let kinds =
                    [json!("exec"), json!("TOOL_CALLS"), json!("tool_calls "), json!(null), json!(7), json!(["final"])];
                self.body["kind"] = dice.pick(&kinds).clone();
            }
            H::UnknownVersion => {
                let versions = [json!(0), json!(2), json!("1"), json!(1.5), json!(null), json!(-1)];
                self.body["schema_version"] = dice.pick(&versions).clone();
            }
            H::UnknownField => match dice.roll(3) {
                0 => self.body["approved"] = json!(true),
                1 => self.call(dice)["policy"] = json!("permit(principal, action, resource);"),
                _ => *self.call(dice) = call("c9", "lookup", json!({"q": "a", "approved_by": "root"})),
            },
            H::DuplicateCallId => {
                let again = self.call(dice).clone();
                self.body["calls"].as_array_mut().unwrap().push(again);
            }
            H::MissingCallId => {
                let ids = [json!(""), json!(null), json!(7), json!({"id": "c1"})];
                self.call(dice)["call_id"] = dice.pick(&ids).clone();
            }
            H::EmptyBatch => self.body["calls"] = json!([]),
            H::ForeignTool => {
                let names = ["forbidden", "shell", "Lookup", "lookup\u{0}", "../refund", ""];
                self.call(dice)["tool_name"] = json!(dice.pick(&names));
            }
            H::SchemaViolation => {
                let wrong = [
                    ("lookup", json!({"q": 5})),
                    ("lookup", json!({"q": "A B"})),
                    ("lookup", json!({})),
                    ("lookup", json!({"q": "a", "nested": {"n": "x"}})),
                    ("refund", json!({"order": "A-1", "amount": 0})),
                    ("refund", json!({"order": "A-1", "amount": 1e9})),
                    ("refund", json!({"order": ["A-1"], "amount": 5})),
                    ("refund", json!({"amount": 5})),
                    ("audit", json!({"case": {}})),
                    ("audit", json!({"case": {"id": {"deep": 1}}})),
                    ("refund", json!("order A-1")),
                    ("refund", json!(null)),
                ];
                let (tool, arguments) = dice.pick(&wrong).clone();
                *self.call(dice) = call("c9", tool, arguments);
            }
            H::DepthBomb => {
                let levels = 33 + dice.roll(2_000);
                self.plant(dice, nested(levels));
            }
            H::SizeBomb => {
                // Over the limit of one call's arguments, or of the whole text.
                let bytes = *dice.pick(&[70_000, 300_000]) + dice.roll(1_000);
                self.plant(dice, format!("\"{}\"", "x".repeat(bytes)));
            }
            H::NodeBomb => {
                let more = "0,".repeat(20_000 + dice.roll(500));
                self.plant(dice, format!("[{more}0]"));
            }
            H::BatchBomb => {
                let calls: Vec<Value> = (0..17 + dice.roll(100)).map(|n| good_call(dice, n)).collect();
                self.body["calls"] = json!(calls);
            }
            H::DeniedObject => {
                let amount = *dice.pick(&[1, 99]);
                *self.call(dice) =
                    call("c9", "refund", json!({"order": format!("X{}", dice.roll(99)), "amount": amount}));
            }
            H::DeniedTenant => {
                self.turn.scope.tenant = (*dice.pick(&["globex", "acme ", "Tenant::\"acme\"", "acme/ada"])).into()
            }
            H::Overspending => {
                self.turn.budget.max_tool_calls = self.turn.spent.tool_calls;
                self.call(dice);
            }
            H::DuplicateKey => {
                let text = self.body.to_string();
                self.text = Some(text.replacen('{', "{\"kind\":\"final\",\"answer\":1,\"kind\":\"final\",", 1));
            }
            H::InexactNumber => {
                let number = dice.pick(&[json!(9_007_199_254_740_993_i64), json!(u64::MAX), json!(i64::MIN)]).clone();
                *self.call(dice) = call("c9", "audit", json!({"case": {"id": number}}));
            }
            H::BrokenText => {
                let text = self.body.to_string();
                let broken = match dice.roll(6) {
                    0 => text.chars().take(dice.roll(text.chars().count())).collect(),
                    1 => format!("{text}{text}"),
                    2 => format!("Sure! Here is the decision: {text}"),
                    3 => json!([self.body]).to_string(),
                    4 => "{\"no_decision\":\"refused\"}".to_owned(),
                    _ => dice.text(400),
                };
                self.text = Some(broken);
            }
        }
    }
}

/// The codes of a judgement that rejects. Nothing may be accepted, and nothing may come before a person.
fn rejected(judge: &Judge, attack: Attack, what: &str) -> Vec<FindingCode> {
    let turn = attack.turn.clone();
    let text = attack.into_text();
    match judge.judge(&proposed(turn, text.clone())) {
        Judgement::Rejected { findings, .. } => {
            assert!(!findings.is_empty(), "{what}");
            assert!(
                findings.iter().all(|one| one.message.len() <= 2_000 && one.path.len() <= 512),
                "{what}: {findings:?}"
            );
            findings.into_iter().map(|finding| finding.code).collect()
        }
        other => panic!("{what} passed: {other:?}\n{}", text.chars().take(2_000).collect::<String>()),
    }
}

#[test]
fn none_of_ten_thousand_hostile_decisions_passes_and_each_is_told_why_by_code() {
    let judge = judge_by(POLICY);
    let mut dice = Dice(SEED);
    let mut counts: BTreeMap<Hostility, (usize, usize)> = BTreeMap::new();
    for n in 0..DECISIONS {
        let mut attack = Attack::new(&mut dice);
        let first = *dice.pick(&ALL);
        let second = (dice.roll(2) == 0).then(|| *dice.pick(&ALL));
        // The one that the findings must name is done last, so that nothing takes its place.
        for hostility in second.into_iter().chain([first]) {
            attack.apply(hostility, &mut dice);
        }
        let what = format!("decision {n}, {second:?} and {first:?}");
        let codes = rejected(&judge, attack, &what);
        let named = |hostility: Hostility| codes.iter().any(|code| hostility.codes().contains(code));
        // What hides the rest of a decision may hide one of two, never both; alone each is named.
        assert!(named(first) || second.is_some_and(named), "{what}: {codes:?}");
        let count = counts.entry(first).or_default();
        count.0 += 1;
        count.1 += usize::from(second.is_none());
    }
    for hostility in ALL {
        let (all, alone) = counts.get(&hostility).copied().unwrap_or_default();
        assert!(all > 400 && alone > 150, "{hostility:?} occurred {all} times, {alone} of them alone");
    }
}

#[test]
fn what_the_attacks_start_from_passes() {
    let judge = judge_by(POLICY);
    let mut dice = Dice(SEED);
    let (mut accepted, mut gated) = (0, 0);
    for _ in 0..500 {
        let attack = Attack::new(&mut dice);
        match judge.judge(&proposed(attack.turn, attack.body.to_string())) {
            Judgement::Accepted { .. } => accepted += 1,
            Judgement::ApprovalRequired { .. } => gated += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(accepted > 100 && gated > 50, "{accepted} accepted, {gated} gated");
}
