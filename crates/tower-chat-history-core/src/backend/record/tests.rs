//! Tests of the stored form.

use std::sync::Arc;

use super::{
    cuts::{CUTS, STATES, cuts_1},
    *,
};
use crate::{
    compaction::{Compaction, CompactionVersion, Cut, Cuts, Positions, Summary},
    digest::Digest,
    exchange::{ExchangeId, Timestamp, TokenCounts, Usage},
    metadata::Metadata,
    profile::Profile,
    provenance::{Origin, PromptDigests},
    seq::Seq,
};

fn full() -> Exchange {
    let odd = Message::from_json("{ \"role\":\"user\", \"content\":\"\\u0000\", \"x\": 1.0 }").unwrap();
    let mut exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [odd, Message::assistant("hi")]);
    exchange.continues = Some(Seq::new(3));
    exchange.tokens = Some(TokenCounts { counter: "o200k_base".into(), counts: vec![5, 6] });
    exchange.model = Some("gpt-4o".into());
    exchange.finish_reason = Some("stop".into());
    exchange.usage = Some(Usage::new(10, 2));
    exchange.incomplete = true;
    exchange.metadata = Some(Metadata::new("{ \"messages\":[\"\\u0000\"], \"n\": 1.0 }").unwrap());
    exchange
}

fn record_of(cut: &Cut) -> String {
    Cuts::new(cut.clone()).encode().unwrap()
}

fn cut_of(record: &str) -> Result<Cut, RecordError> {
    Cuts::decode(record).map(|cuts| cuts.cut)
}

fn recalled_of(record: &str) -> Result<Recalled, RecordError> {
    read(record, RECALLED)?.in_dialect(&DialectName::default())
}

fn decode_with(record: &str, recalled: &str) -> Result<Exchange, RecordError> {
    ExchangeRecords { exchange: record, recalled: Some(recalled), provenance: None }.decode()
}

#[test]
fn decodes_what_it_encoded_byte_for_byte() {
    for exchange in [full(), Exchange::new(ExchangeId::generate(), [])] {
        let record = exchange.encode().unwrap();
        let read = Exchange::decode(&record).unwrap();
        assert_eq!(read, exchange);
        assert_eq!(read.encode().unwrap(), record);
    }
}

/// From release 0.1.0 on, a change here is a new version, and this version keeps its reader.
#[test]
fn version_1_is_frozen() {
    let mut exchange = full();
    exchange.at = Timestamp::from_unix_millis(1_700_000_000_000);
    let expected = "{\"v\":1,\"id\":\"e1\",\"at\":1700000000000,\"continues\":3,\"messages\":[{ \"role\":\"user\", \"content\":\"\\u0000\", \"x\": 1.0 },{\"role\":\"assistant\",\"content\":\"hi\"}],\"tokens\":{\"counter\":\"o200k_base\",\"counts\":[5,6]},\"model\":\"gpt-4o\",\"finish_reason\":\"stop\",\"usage\":{\"input_tokens\":10,\"output_tokens\":2},\"incomplete\":true,\"metadata\":{ \"messages\":[\"\\u0000\"], \"n\": 1.0 }}";
    assert_eq!(exchange.encode().unwrap(), expected);
}

#[test]
fn version_1_of_a_cut_is_frozen() {
    let mut cut = Cut::window_from(Seq::new(2));
    let text = r#"{"v":1,"positions":[2,2,0,2]}"#;
    assert_eq!((record_of(&cut).as_str(), cut_of(text).unwrap()), (text, cut.clone()));
    cut.set_summary(Summary::new("s"), Seq::new(1));
    let text = r#"{"v":1,"positions":[2,2,1,2],"summary":{"text":"s"}}"#;
    assert_eq!((record_of(&cut).as_str(), cut_of(text).unwrap()), (text, cut.clone()));
    assert!(matches!(cut_of(&text.replacen('1', "2", 1)), Err(RecordError::Newer { version: 2, known: 1 })));
    cut = Cut::window_from(Seq::new(2));
    cut.recalled_from = Seq::new(7);
    let text = r#"{"v":1,"positions":[2,2,0,2,7]}"#;
    assert_eq!((record_of(&cut).as_str(), cut_of(text).unwrap()), (text, cut.clone()));
    cut.encrypted_from = Seq::new(6);
    let text = r#"{"v":1,"positions":[2,2,0,2,7,0,6]}"#;
    assert_eq!((record_of(&cut).as_str(), cut_of(text).unwrap()), (text, cut.clone()));
    cut.thoughts_from = Seq::new(5);
    let text = r#"{"v":1,"positions":[2,2,0,2,7,0,6,5]}"#;
    assert_eq!((record_of(&cut).as_str(), cut_of(text).unwrap()), (text, cut));
    for wrong in ["{}", r#"{"v":1,"positions":[2,2,1,2]}"#, r#"{"v":1,"positions":[0,0,0,0,0,0,0,0,0]}"#] {
        assert!(cut_of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn version_1_of_recalled_messages_is_frozen() {
    let mut recalled = Recalled::new("Rex \u{0}", vec![Citation::new(Seq::new(3), 0..2)]);
    let text = r#"{"v":1,"message":{"role":"user","content":"Rex \u0000"},"citations":[[3,0,2]]}"#;
    assert_eq!((recalled.encode().unwrap().as_str(), recalled_of(text).unwrap()), (text, recalled.clone()));
    recalled.tokens = Some(7);
    let text = text.replace("]]}", "]],\"tokens\":7}");
    assert_eq!((recalled.encode().unwrap(), recalled_of(&text).unwrap()), (text.clone(), recalled));
    let other = Citation::new(Seq::new(9), 1..2).of("acme/ann/7".parse().unwrap());
    let with_other = Recalled::new("Rex", vec![other, Citation::new(Seq::new(3), 0..2)]);
    let of_other = r#"{"v":1,"message":{"role":"user","content":"Rex"},"citations":[[9,1,2,"acme/ann/7"],[3,0,2]]}"#;
    assert_eq!((with_other.encode().unwrap().as_str(), recalled_of(of_other).unwrap()), (of_other, with_other));
    for damaged in ["[9,1,2,7]", "[9,1]", "[9,1,2,\"a b\"]", "[9,1,2,\"a\",3]", "[-1,1,2]"] {
        assert!(recalled_of(&of_other.replace(r#"[9,1,2,"acme/ann/7"]"#, damaged)).is_err(), "{damaged}");
    }
    let newer = text.replacen('1', "2", 1);
    assert!(matches!(recalled_of(&newer), Err(RecordError::Newer { version: 2, known: 1 })));
    assert!(recalled_of("{}").is_err());
}

#[test]
fn an_exchange_is_read_with_its_recalled_messages_and_their_count() {
    let mut exchange = full();
    let mut recalled = Recalled::new("Rex", vec![Citation::new(Seq::FIRST, 0..1)]);
    recalled.tokens = Some(9);
    let record = exchange.encode().unwrap();
    exchange.recalled = Some(recalled);
    assert_eq!(exchange.encode().unwrap(), record, "they are not in the record");
    let text = exchange.recalled.as_ref().unwrap().encode().unwrap();
    let read = decode_with(&record, &text).unwrap();
    assert_eq!(read, exchange);
    let counted = read.recalled.unwrap().message;
    assert_eq!(counted.tokens_by("o200k_base"), Some(9));
    assert!(decode_with(&record, "secret").is_err());
}

#[test]
fn newer_and_damaged_records_are_different_errors_without_quotes() {
    let as_now = full().encode().unwrap().replacen("\"v\":1", "\"v\":2", 1);
    for newer in [r#"{"v":2,"secret":1}"#, &as_now] {
        assert!(matches!(Exchange::decode(newer), Err(RecordError::Newer { version: 2, known: 1 })), "{newer}");
    }
    let unversioned = full().encode().unwrap().replacen("\"v\":1,", "", 1);
    assert!(Exchange::decode(&unversioned).is_err());
    for damaged in ["", "secret", "{\"v\":1}", &full().encode().unwrap()[..40]] {
        let error = Exchange::decode(damaged).unwrap_err();
        assert!(matches!(error, RecordError::Malformed { .. }) && !error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn the_newest_reader_reads_the_written_version() {
    let readers = [EXCHANGES.len(), CUTS.len(), STATES.len(), RECALLED.len(), PROVENANCES.len()];
    assert_eq!(readers.map(|readers| readers as u64), [VERSION; 5]);
}

#[test]
fn a_version_is_a_number_from_1_and_any_larger_one_is_newer() {
    let (exchange, cut) = (full().encode().unwrap(), record_of(&Cut::default()));
    let with = |record: &str, version: &str| record.replacen("\"v\":1", &format!("\"v\":{version}"), 1);
    let both = |version: &str| {
        let exchange = Exchange::decode(&with(&exchange, version)).unwrap_err();
        [exchange, cut_of(&with(&cut, version)).unwrap_err()]
    };
    for newer in [2, 4_294_967_295, 4_294_967_296, u64::MAX] {
        for error in both(&newer.to_string()) {
            assert!(matches!(error, RecordError::Newer { version, known: 1 } if version == newer), "{error:?}");
        }
    }
    for none in ["0", "-1", "1.0", "null", "\"1\"", "[]", "18446744073709551616"] {
        for error in both(none) {
            assert!(matches!(error, RecordError::Malformed { line: 1, .. }), "{none}: {error:?}");
        }
    }
}

/// A possible later step: version 2 would say `start` instead of `positions`, and nothing else.
#[test]
fn a_later_version_reads_the_older_ones_and_refuses_newer_ones() {
    #[derive(Deserialize)]
    struct Next {
        v: Version,
        start: Seq,
    }
    let cuts = |start| Cuts::new(Cut::window_from(start));
    let next: Reader<Cuts> = |record| {
        let Next { v, start } = serde_json::from_str(record)?;
        Ok((v, Cuts::new(Cut::window_from(start))))
    };
    let readers = [cuts_1 as Reader<Cuts>, next];
    let cut = Cut::window_from(Seq::new(7));
    assert_eq!(read(&record_of(&cut), &readers).unwrap(), cuts(Seq::new(7)));
    assert_eq!(read(r#"{"v":2,"start":7}"#, &readers).unwrap(), cuts(Seq::new(7)));
    assert!(matches!(cut_of(r#"{"v":2,"start":7}"#), Err(RecordError::Newer { version: 2, known: 1 })));
    for newer in [r#"{"v":3,"start":7}"#, r#"{"v":3}"#] {
        assert!(matches!(read(newer, &readers), Err(RecordError::Newer { version: 3, known: 2 })), "{newer}");
    }
    // Each version has its own form.
    for malformed in [r#"{"v":1,"start":7}"#, r#"{"v":2,"positions":[7]}"#, r#"{"start":7}"#, "{"] {
        assert!(matches!(read(malformed, &readers), Err(RecordError::Malformed { .. })), "{malformed}");
    }
}

fn both() -> Cuts {
    let mut cut = Cut::window_from(Seq::new(2));
    cut.reasoning_from = Seq::new(4);
    cut.set_summary(Summary { tokens: Some(7), model: Some("m".into()), ..Summary::new("t") }, Seq::new(2));
    let mut replaced = Cut::window_from(Seq::new(1));
    replaced.set_summary(Summary::new("s \u{0}"), Seq::new(1));
    Cuts::new(cut).replacing(Some(replaced))
}

#[test]
fn version_1_of_cuts_in_a_file_has_the_cut_that_was_replaced() {
    let text = r#"{"v":1,"positions":[2,2,2,2,0,4],"summary":{"text":"t","tokens":7,"model":"m"},"replaced":{"positions":[1,1,1,1],"summary":{"text":"s \u0000"}}}"#;
    assert_eq!(both().encode().unwrap(), text);
    assert_eq!(Cuts::decode(text).unwrap(), both());
}

#[test]
fn version_1_of_a_compaction_has_positions_in_its_state_and_text_apart() {
    let compact = both().compact(Profile::default(), CompactionVersion::new(3)).unwrap();
    assert_eq!((compact.replaces, compact.window_start), (CompactionVersion::new(3), Seq::new(2)));
    let state = r#"{"v":1,"cut":[2,2,2,2,0,4],"replaced":[1,1,1,1]}"#;
    assert_eq!(*compact.state, *state.as_bytes());
    let derived = r#"{"summary":{"text":"t","tokens":7,"model":"m"},"replaced":{"text":"s \u0000"}}"#;
    assert_eq!(compact.derived.as_deref(), Some(derived.as_bytes()));
    assert_eq!(Cuts::read(&compact.stored_as(CompactionVersion::new(4))).unwrap(), both());

    let plain = Cuts::new(Cut::window_from(Seq::new(2)));
    let compact = plain.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    assert_eq!((&*compact.state, compact.derived.as_deref()), (&br#"{"v":1,"cut":[2,2,0,2]}"#[..], None));
    assert_eq!(Cuts::read(&compact.stored_as(CompactionVersion::new(1))).unwrap(), plain);
}

#[test]
fn damaged_compactions_are_errors_without_quotes() {
    let read = |state: &[u8], derived: Option<&[u8]>| {
        let derived = derived.map(Arc::from);
        Cuts::read(&Compaction::new(CompactionVersion::new(1), Seq::new(2), Arc::from(state), derived)).unwrap_err()
    };
    let state = br#"{"v":1,"cut":[2,2,2,2]}"#;
    for (state, derived) in [
        (&b"\xff"[..], None),
        (b"secret", None),
        (br#"{"v":1,"cut":[2,2,2,0,0,0,0,0,0]}"#, None),
        (state, Some(&b"\xff secret"[..])),
        (state, Some(br#"{"secret":1}"#)),
        (state, Some(br#"{"summary":{"text":"secret"},"replaced":1}"#)),
    ] {
        let error = read(state, derived);
        assert!(matches!(error, RecordError::Malformed { .. }) && !error.to_string().contains("secret"), "{error}");
    }
    let newer = read(br#"{"v":2,"secret":1}"#, None);
    assert!(matches!(newer, RecordError::Newer { version: 2, known: 1 }), "{newer}");
}

#[test]
fn version_1_of_a_provenance_is_frozen() {
    let (head, prompt) = (Digest::of(b"head"), Digest::of(b"prompt"));
    let mut cut = Cut::window_from(Seq::new(2));
    (cut.reasoning_from, cut.encrypted_from) = (Seq::new(5), Seq::new(3));
    let origin = Origin::unknown().provider("p").route("r").account("a").model("m");
    let mut provenance = Provenance::new(1, cut.positions, PromptDigests::new(head, prompt), origin);
    let text = r#"[1,1,null,null,"cchrlGix8HfvJ0wiJTyNGQ",[2,2,0,2,0,5,3],["p","m","r","a"]]"#;
    assert_eq!(provenance.encode().unwrap(), text);
    assert_eq!(Provenance::decode(text).unwrap(), provenance);

    provenance.made_at = Some(Seq::new(7));
    provenance.reader = Some(head);
    provenance.tokens = Some(12_345);
    provenance.origin = Origin::unknown();
    let text = r#"[1,1,7,12345,"cchrlGix8HfvJ0wiJTyNGXHIa5RosfB3",[2,2,0,2,0,5,3]]"#;
    assert_eq!(provenance.encode().unwrap(), text);
    assert_eq!(Provenance::decode(text).unwrap(), provenance);

    provenance.origin = Origin::unknown().route("r");
    let text = r#"[1,1,7,12345,"cchrlGix8HfvJ0wiJTyNGXHIa5RosfB3",[2,2,0,2,0,5,3],[null,null,"r"]]"#;
    assert_eq!(provenance.encode().unwrap(), text);
    assert_eq!(Provenance::decode(text).unwrap(), provenance);

    let least = Provenance::default();
    let text = r#"[1,0,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[]]"#;
    assert_eq!(least.encode().unwrap(), text);
    assert_eq!(Provenance::decode(text).unwrap(), least);
}

#[test]
fn a_damaged_provenance_is_an_error() {
    for wrong in [
        "{}",
        r#"{"v":1}"#,
        "[]",
        "[0]",
        "[1]",
        "[1,1,null,null]",
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAA"]"#,
        r#"[1,1,null,null,"",[]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAA",[]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAAAA",[]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAA*A",[]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[1,2,3,4,5,6,7,8,9]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[-1]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[],["p","m","r","a","h","x"]]"#,
        r#"[1,1,null,null,"AAAAAAAAAAAAAAAAAAAAAA",[],[],1]"#,
    ] {
        assert!(matches!(Provenance::decode(wrong), Err(RecordError::Malformed { .. })), "{wrong}");
    }
    let newer = Provenance::decode(r#"[2,"secret"]"#).unwrap_err();
    assert!(matches!(newer, RecordError::Newer { version: 2, known: 1 }), "{newer}");
}

/// It is stored beside every exchange.
#[test]
fn a_provenance_is_small() {
    let last = Seq::new(99_999);
    let cut = Positions {
        window_start: last,
        rounds_start: last,
        cleared_before: last,
        recalled_from: last,
        reasoning_from: last,
        encrypted_from: last,
        thoughts_from: last,
        covers_to: last,
    };
    let digests = PromptDigests::new(Digest::of(b"head"), Digest::of(b"prompt"));
    let mut provenance = Provenance::new(99, cut, digests, Origin::unknown());
    provenance.made_at = Some(last);
    provenance.tokens = Some(9_999_999);
    provenance.reader = Some(Digest::of(b"reader"));
    let text = provenance.encode().unwrap();
    assert!(text.len() <= 110, "{} bytes: {text}", text.len());
}

#[test]
fn a_record_names_its_dialect_and_the_length_of_its_reply_if_they_are_not_the_usual_ones() {
    let usual = Exchange::new(ExchangeId::generate(), [Message::user("u"), Message::assistant("a")]);
    assert_eq!((usual.reply_len, usual.input().len(), usual.reply().len()), (1, 1, 1));
    let record = usual.encode().unwrap();
    assert!(!record.contains("reply_len") && !record.contains("dialect"), "{record}");
    let other = usual.clone().with_reply_len(0);
    let record = other.encode().unwrap();
    assert!(record.contains(r#""reply_len":0"#), "{record}");
    assert_eq!(Exchange::decode(&record).unwrap(), other);
    let beyond = record.replace(r#""reply_len":0"#, r#""reply_len":9"#);
    assert_eq!(Exchange::decode(&beyond).unwrap().reply_len, 2, "it has only two messages");
}

#[test]
fn messages_of_an_unknown_dialect_are_read_byte_for_byte_and_without_an_index() {
    let items = r#"[{"say" : "hi","n":1.50},{"call":"x"}]"#;
    let record =
        format!(r#"{{"v":1,"id":"e1","at":1700000000000,"dialect":"others","messages":{items},"reply_len":1}}"#);
    let exchange = Exchange::decode(&record).unwrap();
    assert_eq!(exchange.encode().unwrap(), record);
    let [said, call] = &*exchange.messages else { unreachable!("there are two messages") };
    assert_eq!((said.json(), call.json()), (r#"{"say" : "hi","n":1.50}"#, r#"{"call":"x"}"#));
    assert!(said.dialect().is_none() && said.text().is_empty() && call.tool_calls().is_empty());
    assert_eq!((exchange.dialect.as_str(), exchange.reply_len), ("others", 1));
    for name in ["", "a b", &"x".repeat(65)] {
        let record = record.replacen("others", name, 1);
        assert!(matches!(Exchange::decode(&record), Err(RecordError::Malformed { .. })), "{name}");
    }
}
