//! Damage within postings is found by the search that reads them, and mended by the next step of the index.

use tower_chat_history_core::{Attach, Attachment, HistoryStore, Seq};
use tower_chat_history_recall::{StoredIndex, Term};

use crate::{
    store_index::{Chat, record},
    store_meaning::Subjects,
};

fn word(number: u64) -> String {
    format!("word{number}")
}

/// Returns the words with the greatest terms first, so the postings of the first one are at a table's end.
fn last_words(words: impl Iterator<Item = u64>, bucket: Option<u8>) -> Vec<String> {
    let mut words: Vec<String> = words.map(word).collect();
    words.retain(|word| bucket.is_none_or(|bucket| Term::of(word).bucket() == bucket));
    words.sort_by_key(|word| std::cmp::Reverse(Term::of(word).get()));
    words
}

async fn replace(chat: &Chat, record: &Attachment) {
    let incarnation = chat.revision().await.unwrap().incarnation();
    chat.store.store.attach(&chat.id, incarnation, &[record.key()], std::slice::from_ref(record)).await.unwrap();
}

/// Flips a bit of the last byte, which is a posting. Its number then has no end.
async fn damage(chat: &Chat, record: &Attachment) {
    let mut body = record.body.to_vec();
    *body.last_mut().unwrap() ^= 0x80;
    replace(chat, &Attachment::new(record.name.clone(), record.range.clone(), body)).await;
}

async fn indexed(texts: u64, distinct: u64, before: Seq) -> (Chat, StoredIndex) {
    let chat = Chat::new();
    chat.say((0..texts).map(|number| word(number % distinct))).await;
    let index = chat.index();
    chat.index_all(&index, before).await;
    (chat, index)
}

#[tokio::test]
async fn a_block_with_a_damaged_posting_is_made_again() {
    let before = Seq::new(190);
    let (chat, index) = indexed(200, 200, before).await;
    let words = last_words(0..64, None);
    let query = format!("Which {}?", words[0]);
    let fresh = chat.found(&index, &query, before).await;
    let block = chat.stored(&record("all")).await.remove(0);
    damage(&chat, &block).await;
    for _ in 0..2 {
        let found = chat.found(&index, &query, before).await;
        assert_eq!((found.damaged, found.unsearched), (1, 0));
        assert!(found.recalled.is_some());
        assert_eq!((found.recalled, found.best), (fresh.recalled.clone(), fresh.best));
    }
    assert_eq!(chat.found(&index, &format!("Which {}?", words[1]), before).await.damaged, 0, "it is not read");
    let done = chat.step(&index, before).await;
    assert_eq!((done.removed, done.blocks), (1, 1));
    assert_eq!(chat.found(&index, &query, before).await, fresh);
    assert_eq!(chat.stored(&record("all")).await[0], block);
}

#[tokio::test]
async fn a_segment_with_a_damaged_posting_is_made_again() {
    let before = Seq::new(4180);
    let (chat, index) = indexed(4200, 900, before).await;
    let bucket = Term::of("word7").bucket();
    let words = last_words(0..900, Some(bucket));
    let query = format!("Which {}?", words[0]);
    let fresh = chat.found(&index, &query, before).await;
    let table = chat.stored(&record(&format!("b{bucket:02}"))).await.remove(0);
    damage(&chat, &table).await;
    let found = chat.found(&index, &query, before).await;
    assert_eq!((found.damaged, found.unsearched), (1, 4096 + 20 - 512));
    let done = chat.step(&index, before).await;
    assert_eq!((done.removed, done.blocks), (1, 16));
    chat.index_all(&index, before).await;
    assert_eq!(chat.found(&index, &query, before).await, fresh);
    assert_eq!(chat.stored(&record(&format!("b{bucket:02}"))).await, [table]);
}

#[tokio::test]
async fn a_part_that_is_not_damaged_any_more_stays() {
    let before = Seq::new(190);
    let (chat, index) = indexed(200, 200, before).await;
    let query = format!("Which {}?", last_words(0..64, None)[0]);
    let block = chat.stored(&record("all")).await.remove(0);
    damage(&chat, &block).await;
    assert_eq!(chat.found(&index, &query, before).await.damaged, 1);
    replace(&chat, &block).await;
    let done = chat.step(&index, before).await;
    assert_eq!((done.removed, done.blocks), (0, 0));
}

#[tokio::test]
async fn a_part_of_a_former_incarnation_stays() {
    let before = Seq::new(190);
    let (chat, index) = indexed(200, 200, before).await;
    let query = format!("Which {}?", last_words(0..64, None)[0]);
    let block = chat.stored(&record("all")).await.remove(0);
    damage(&chat, &block).await;
    assert_eq!(chat.found(&index, &query, before).await.damaged, 1);
    chat.store.store.delete(&chat.id).await.unwrap();
    chat.say((0..200).map(word)).await;
    chat.index_all(&chat.index(), before).await;
    let calls = chat.store.writes();
    let done = chat.step(&index, before).await;
    assert_eq!((done.removed, done.blocks, chat.store.writes() - calls), (0, 0, 0));
}

#[tokio::test]
async fn a_missing_table_is_damage_also_if_vectors_are_cut_off() {
    let before = Seq::new(4180);
    let (chat, index) = indexed(4200, 900, before).await;
    let index = index.by_meaning(Subjects::new("subjects"));
    chat.index_all(&index, before).await;
    let name = record(&format!("b{:02}", Term::of("word7").bucket()));
    let table = chat.stored(&name).await.remove(0);
    let incarnation = chat.revision().await.unwrap().incarnation();
    chat.store.store.attach(&chat.id, incarnation, &[table.key()], &[]).await.unwrap();

    let vectors = format!("vectors/{:012x}/64", Term::of("subjects").get());
    let mut bytes = 0;
    for name in [record("docs"), record("all"), vectors] {
        bytes += chat.stored(&name).await.iter().map(|stored| stored.body.len()).sum::<usize>();
    }
    for (most, damaged) in [(bytes, 1), (1, 0)] {
        chat.store.return_at_most(most);
        assert_eq!(chat.found(&index, "Which word7?", before).await.damaged, damaged, "{most}");
    }
    chat.store.return_at_most(usize::MAX);
    assert!(chat.step(&index, before).await.removed > 0);
}
