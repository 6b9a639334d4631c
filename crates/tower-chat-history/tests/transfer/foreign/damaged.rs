//! Files that are damaged or hostile.

use proptest::prelude::*;
use tower_chat_history::transfer::foreign::{
    ForeignConversation, ForeignError, ForeignOptions, assistants_threads, chat_ml, chat_ml_text, import_foreign,
    langchain_redis, share_gpt,
};

use super::import;
use crate::support::{TestStore, prefix};

type Conversations<'a> = Box<dyn Iterator<Item = Result<ForeignConversation, ForeignError>> + Send + 'a>;

fn all(file: &[u8]) -> [Conversations<'_>; 5] {
    [
        Box::new(chat_ml(file)),
        Box::new(chat_ml_text(file)),
        Box::new(share_gpt(file)),
        Box::new(assistants_threads(file)),
        Box::new(langchain_redis(file)),
    ]
}

#[tokio::test]
async fn a_damaged_line_is_skipped_and_named() {
    let good = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    let file = format!("{good}\n{{\"messages\":[{{\"secret\":1}}]}}\nsecret\n{{\"secret\":[]}}\n{good}\n");
    let report = import(&TestStore::default(), chat_ml(file.as_bytes())).await;
    assert_eq!((report.stored, report.skipped), (2, 3));
    let shown: Vec<_> = report.named.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "line 2: record 2: message 0 is not a valid message",
            "line 3: record 3: it is not valid JSON (column 1)",
            "line 4: record 4: it does not have the form of this format: expected a list `messages`",
        ]
    );
    assert!(!format!("{report:?}").contains("secret"));
}

#[tokio::test]
async fn names_that_are_no_ids_are_skipped() {
    let file = format!("{{\"id\":\"{}\",\"messages\":[]}}\n", "x".repeat(2_000));
    let report = import(&TestStore::default(), chat_ml(file.as_bytes())).await;
    assert_eq!(report.skipped, 1);
    let options = ForeignOptions::new(prefix("")).separator(Some("/".into()));
    let file = "{\"id\":\"a//b\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n";
    let report = import_foreign(&TestStore::default(), chat_ml(file.as_bytes()), &options).await.unwrap();
    assert!(report.named[0].to_string().contains("part 1 is empty"), "{report:?}");
}

proptest! {
    /// Whatever a file contains, every reader ends.
    #[test]
    fn readers_end_with_any_file(
        pieces in prop::collection::vec(
            prop_oneof![
                any::<Vec<u8>>(),
                Just(b"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n".to_vec()),
                Just(b"{\"conversations\":[{\"from\":\"human\",\"value\":\"x\"}]}\n".to_vec()),
                Just(b"{\"data\":[{\"role\":\"user\",\"content\":\"x\"}]}\n".to_vec()),
                Just(b"{\"key\":\"a\",\"values\":[{\"type\":\"ai\",\"content\":\"x\"}]}\n".to_vec()),
                Just(b"<|im_start|>user\n".to_vec()),
                Just(b"<|im_end|>".to_vec()),
                Just(b"[".repeat(300)),
                Just(b"[{}]\n".to_vec()),
            ],
            0..6,
        ),
    ) {
        let file = pieces.concat();
        for conversations in all(&file) {
            prop_assert!(conversations.take(10_000).count() < 10_000);
        }
    }
}
