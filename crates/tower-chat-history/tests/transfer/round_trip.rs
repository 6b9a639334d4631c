//! Logs that are exported and imported.

use std::collections::HashMap;

use proptest::prelude::*;
use serde::Deserialize;
use tower_chat_history_core::{
    AnthropicMessages, Citation, Cut, Cuts, Digest, Exchange, ExchangeId, Incarnation, Labels, LabelsVersion, Message,
    Metadata, OpenAiResponses, Profile, Provenance, Recalled, Recorded, Seq, Summary, Timestamp,
};

use crate::support::{Log, Logs, TestStore, compaction, exported, imported, texts};

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<String>().prop_map(Message::user),
        any::<String>().prop_map(Message::assistant),
        (any::<String>(), "[ \t\n\r]{0,3}").prop_map(|(text, space)| {
            let text = serde_json::to_string(&text).unwrap();
            let json =
                format!("{{{space}\"role\" : \"assistant\",{space}\"content\":{text}, \"x\":[1.0e5,{{}}]{space}}}");
            Message::from_json(json).unwrap()
        }),
        Just(Message::from_json(r#"{"role":"user","content":"\u0000\ud83d\ude00"}"#).unwrap()),
    ]
}

fn other_dialect() -> impl Strategy<Value = Vec<Message>> {
    prop_oneof![
        Just(vec![
            Message::in_dialect(&AnthropicMessages, r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#)
                .unwrap()
        ]),
        Just(vec![
            Message::in_dialect(&OpenAiResponses, "{\"type\":\"message\",\n\"role\":\"user\",\"content\":\"x\"}")
                .unwrap()
        ]),
    ]
}

prop_compose! {
    fn exchange(number: u64)(
        messages in prop_oneof![4 => prop::collection::vec(message(), 0..4), 1 => other_dialect()],
        at in 0..u64::MAX / 2,
        model in prop::option::of(any::<String>()),
        incomplete in any::<bool>(),
        metadata in prop::option::of((any::<String>(), "[ \t\n\r]{0,3}")),
        continues in any::<bool>(),
        recalled in any::<bool>(),
        provenance in any::<bool>(),
    ) -> Exchange {
        let mut exchange = Exchange::new(ExchangeId::new(format!("e{number}")).unwrap(), messages);
        exchange.at = Timestamp::from_unix_millis(at);
        exchange.model = model;
        exchange.incomplete = incomplete;
        exchange.metadata = metadata.map(|(text, space)| {
            let text = serde_json::to_string(&text).unwrap();
            Metadata::new(format!("{{{space}\"a\":{text},{space}\"n\":[1.0,{{}}]}}")).unwrap()
        });
        exchange.continues = Some(Seq::new(number.saturating_sub(1))).filter(|_| continues && number > 0);
        exchange.recalled = recalled.then(|| Recalled::new("recalled\n", vec![Citation::new(Seq::FIRST, 0..1)]));
        exchange.provenance = provenance.then(Provenance::default);
        exchange
    }
}

fn log() -> impl Strategy<Value = Log> {
    (0_u64..5, 1_u64..5).prop_flat_map(|(first, len)| {
        let exchanges: Vec<_> = (first..first + len).map(exchange).collect();
        (Just(first), exchanges, any::<bool>(), any::<String>()).prop_map(|(first, exchanges, compacted, title)| {
            let created_at = exchanges[0].at;
            let updated_at = exchanges.iter().map(|exchange| exchange.at).max().unwrap();
            let recorded = exchanges.into_iter().zip(first..).map(|(one, seq)| Recorded::new(Seq::new(seq), one));
            let mut cut = Cut::window_from(Seq::FIRST);
            cut.recalled_from = Seq::new(first);
            cut.set_summary(Summary::new("a \u{0} summary\n"), Seq::FIRST);
            let compaction = compaction(&Cuts::new(cut).replacing(Some(Cut::default())));
            let compacted = compacted.then(|| (Profile::default(), compaction));
            let title: String = title.chars().take(100).collect();
            Log {
                incarnation: Incarnation::random(),
                first: Seq::new(first),
                exchanges: recorded.collect(),
                compactions: HashMap::from_iter(compacted),
                labels: Labels::new([("title", title)]).unwrap(),
                labels_version: LabelsVersion::new(1),
                created_at,
                updated_at,
            }
        })
    })
}

#[derive(Deserialize)]
struct LineDigest {
    r#type: String,
    digest: Option<Digest>,
}

/// Checks that the last line of each conversation has the digest of the line before it. The import checks the digests
/// of the other lines.
fn assert_chained(lines: &[String]) {
    let mut before = None;
    for line in lines {
        let line: LineDigest = serde_json::from_str(line).unwrap();
        match &*line.r#type {
            "header" | "done" => assert_eq!(line.digest, None),
            "end" => assert_eq!(line.digest, before),
            _ => assert!(line.digest.is_some()),
        }
        before = line.digest;
    }
}

proptest! {
    #[test]
    fn any_log_is_equal_after_an_export_and_an_import(
        logs in prop::collection::btree_map("[a-c](/[a-c]){0,2}", log(), 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (source, target) = (TestStore::default(), TestStore::default());
            source.change(|all: &mut Logs| *all = logs);
            let lines = exported(&source, "").await;
            assert_chained(&lines);
            let report = imported(&target, &lines).await;
            assert_eq!((report.skipped, report.is_whole), (0, true), "{:?}", report.named);
            assert_eq!(texts(&target), texts(&source));
            assert_eq!(exported(&target, "").await, lines, "the same lines");
        });
    }
}
