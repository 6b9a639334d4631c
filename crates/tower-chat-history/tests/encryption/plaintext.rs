//! The files of the database contain neither text nor digests of text.

use sha2::{Digest as _, Sha256};
use tower_chat_history_core::{
    Append, Citation, CompactionVersion, Cut, Cuts, Digest, Expect, HistoryStore, Labels, LabelsVersion, List, Load,
    Loaded, Metadata, Origin, Positions, Profile, PromptDigests, Provenance, Recalled, Seq, Summary, TokenCounts,
};

use crate::support::{TestDatabase, append, id, turn};

const SECRET: &str = "zebra-4711-quokka";

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

fn bytes_of(digest: Digest) -> Vec<u8> {
    u64::from_str_radix(&digest.to_string(), 16).unwrap().to_be_bytes().to_vec()
}

/// Returns the forms in which a text, or something computed from it, could be stored.
fn forms(text: &str) -> Vec<Vec<u8>> {
    use base64::{
        Engine as _,
        engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    };
    let digests = [Sha256::digest(text).to_vec(), bytes_of(Digest::of(text.as_bytes()))];
    let mut forms = vec![text.as_bytes().to_vec()];
    // The first bytes of a digest, because an encoding may continue it differently.
    for digest in digests {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        forms.extend([
            digest[..8].to_vec(),
            STANDARD.encode(&digest[..6]).into_bytes(),
            URL_SAFE_NO_PAD.encode(&digest[..6]).into_bytes(),
            hex.as_bytes()[..16].to_vec(),
        ]);
    }
    // The three alignments of base64, without the characters that neighbors determine.
    for shift in 0..3 {
        let padded = [&vec![0; shift], text.as_bytes()].concat();
        let encoded = STANDARD.encode(&padded[..padded.len() / 3 * 3]);
        forms.push(encoded.as_bytes()[4..].to_vec());
    }
    forms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_contain_neither_a_planted_secret_nor_its_digests() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, id("acme/anna/1"));
    let mut exchange = turn(SECRET);
    let message_texts: Vec<String> = exchange.messages.iter().map(|message| message.json().to_owned()).collect();
    exchange.model = Some(format!("model of {SECRET}"));
    exchange.finish_reason = Some(SECRET.to_owned());
    exchange.metadata = Some(Metadata::new(format!(r#"{{"asked_by":"{SECRET}"}}"#)).unwrap());
    exchange.tokens = Some(TokenCounts { counter: SECRET.into(), counts: vec![1, 2] });
    exchange.recalled = Some(Recalled::new(format!("recalled {SECRET}"), vec![Citation::new(Seq::FIRST, 0..1)]));
    let digests = [Digest::of(SECRET.as_bytes()), exchange.messages[0].digest()];
    let origin = Origin::unknown().account(SECRET);
    let provenance = Provenance::new(1, Positions::default(), PromptDigests::new(digests[0], digests[1]), origin);
    exchange.provenance = Some(provenance);
    append(&store, &id, turn("first")).await;
    let appended = append(&store, &id, exchange.clone()).await;
    let incarnation = appended.revision.incarnation();

    let mut summary = Summary::new(format!("a summary of {SECRET}"));
    summary.model = Some(SECRET.to_owned());
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(summary, Seq::new(1));
    let compact = Cuts::new(cut.clone()).compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(&id, incarnation, compact).await.unwrap();
    let cuts = Cuts::new(cut.clone()).replacing(Some(cut));
    let replaced = cuts.compact(Profile::default(), CompactionVersion::new(1)).unwrap();
    let append_with = Append::new(Expect::AnyOrCreate, turn(SECRET)).compact(replaced);
    store.append(&id, append_with).await.unwrap();
    let labels = Labels::new([("title", SECRET), (SECRET, "x")]).unwrap();
    store.set_labels(&id, incarnation, LabelsVersion::NONE, labels.clone()).await.unwrap();

    let read = store.read(&id, Seq::new(1), 1).await.unwrap();
    assert_eq!(*read.exchanges[0].exchange, exchange, "all of it is stored");
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("no window") };
    let cuts = Cuts::read(&window.compaction.unwrap()).unwrap();
    assert!(cuts.cut.summary.unwrap().text.contains(SECRET));
    assert_eq!(store.describe(&id).await.unwrap().unwrap().labels, labels);
    assert!(!format!("{store:?}").contains(SECRET));

    store.into_inner().close().await.unwrap();
    let bytes = database.bytes();
    assert!(contains(&bytes, b"acme/anna/1"), "the files are those of the database");
    for text in [vec![SECRET.to_owned()], message_texts].concat() {
        for form in forms(&text) {
            assert!(!contains(&bytes, &form), "{:?}", String::from_utf8_lossy(&form));
        }
    }
    for digest in digests {
        assert!(!contains(&bytes, digest.to_string().as_bytes()));
        assert!(!contains(&bytes, &bytes_of(digest)));
    }
    let provenance = exchange.provenance.unwrap().encode().unwrap();
    let stored: serde_json::Value = serde_json::from_str(&provenance).unwrap();
    assert!(!contains(&bytes, stored[4].as_str().unwrap().as_bytes()));
}
