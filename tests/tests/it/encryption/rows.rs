//! Rows of an encrypted SQLite file, of which every single bit is changed.

use std::{error::Error, ops::Range};

use rusqlite::{Connection, params};
use tests::MASTER_KEY;
use tower_chat_history::{
    ConversationId, HistoryStore as _, Message, StoreError,
    dialect::Digest,
    encryption::{EncryptedStore, KeyRing, Keys, MemoryVault},
    store::{
        Append, Citation, CompactionVersion, Cut, Cuts, Exchange, ExchangeId, Expect, Labels, LabelsVersion, List as _,
        Load, Loaded, Origin, Positions, Profile, PromptDigests, Provenance, Recalled, Seq, Summary,
    },
};
use tower_chat_history_sqlite::SqliteStore;

type Store = EncryptedStore<SqliteStore>;

/// The number of bytes of the header of a sealed item, which has the id of the key, and of characters in a text.
const HEADER: usize = 9;
const HEADER_IN_TEXT: usize = 12;

/// A column with a sealed item.
struct Column {
    table: &'static str,
    column: &'static str,
    /// The item that every error names.
    item: &'static str,
}

const COLUMNS: [Column; 5] = [
    Column { table: "exchange", column: "body", item: "exchange 1" },
    Column { table: "exchange", column: "recalled", item: "exchange 1" },
    Column { table: "exchange", column: "provenance", item: "exchange 1" },
    Column { table: "compaction", column: "derived", item: "profile default" },
    Column { table: "conversation", column: "labels", item: "labels" },
];

impl Column {
    /// Returns the condition for the only row that is changed.
    fn row(&self) -> &'static str {
        if self.table == "exchange" { "seq = 1" } else { "true" }
    }

    /// Returns `true` if the sealed item is a part of a text. Otherwise, it is the whole value.
    fn is_text(&self) -> bool {
        self.column != "derived"
    }

    fn stored(&self, file: &Connection) -> Vec<u8> {
        let Self { table, column, .. } = self;
        let sql = format!("SELECT CAST({column} AS BLOB) FROM {table} WHERE {}", self.row());
        file.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    fn change(&self, file: &Connection, bytes: &[u8]) {
        let Self { table, column, .. } = self;
        let kind = if self.is_text() { "TEXT" } else { "BLOB" };
        let sql = format!("UPDATE {table} SET {column} = CAST(?1 AS {kind}) WHERE {}", self.row());
        assert_eq!(file.execute(&sql, params![bytes]).unwrap(), 1);
    }

    /// Returns the place of the sealed item: in a text, the longest piece of base64.
    fn sealed(&self, stored: &[u8]) -> Range<usize> {
        if !self.is_text() {
            return 0..stored.len();
        }
        let (mut longest, mut start) = (0..0, 0);
        for at in 0..=stored.len() {
            if !stored.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)) {
                if at - start > longest.len() {
                    longest = start..at;
                }
                start = at + 1;
            }
        }
        longest
    }

    /// Returns `true` if a row with this byte in its sealed item is still a record.
    fn is_record(&self, byte: u8) -> bool {
        !self.is_text() || byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')
    }
}

/// Stores a conversation that has each item once, in the exchange at position 1 or next to the exchanges.
async fn fill(store: &Store, id: &ConversationId) {
    let exchange = |name: &str, text: &str| Exchange::new(ExchangeId::new(name).unwrap(), [Message::user(text)]);
    let append = |exchange| store.append(id, Append::new(Expect::AnyOrCreate, exchange));
    let incarnation = append(exchange("e0", "a")).await.unwrap().revision.incarnation();
    let mut second = exchange("e1", "b");
    second.recalled = Some(Recalled::new("r", vec![Citation::new(Seq::FIRST, 0..1)]));
    let digests = PromptDigests::new(Digest::of(b"a"), Digest::of(b"b"));
    let provenance = Provenance::new(1, Positions::default(), digests, Origin::unknown());
    second.provenance = Some(provenance);
    append(second).await.unwrap();
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(Summary::new("s"), Seq::new(1));
    let compact = Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(id, incarnation, compact).await.unwrap();
    let labels = Labels::new([("title", "t")]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

/// Reads the item of a column, as text.
async fn read(store: &Store, id: &ConversationId, column: &Column) -> Result<String, StoreError> {
    Ok(match column.table {
        "exchange" => {
            let page = store.read(id, Seq::FIRST, 10).await?;
            let texts: Vec<_> =
                page.exchanges.iter().flat_map(|one| &one.exchange.messages).map(Message::json).collect();
            format!("{page:?} {texts:?}")
        }
        "compaction" => {
            let Loaded::Window(window) = store.load(id, Load::new()).await? else { panic!("no window") };
            format!("{:?}", Cuts::read(&window.compaction.unwrap()).unwrap().cut.summary.map(|summary| summary.text))
        }
        _ => format!("{:?}", store.describe(id).await?.unwrap().labels.iter().collect::<Vec<_>>()),
    })
}

/// Returns the messages of an error and of its sources.
fn causes(error: &StoreError) -> String {
    let (mut texts, mut source) = (error.to_string(), error.source());
    while let Some(error) = source {
        texts.push_str(&format!(": {error}"));
        source = error.source();
    }
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_changed_bit_of_a_stored_row_is_an_error_that_names_the_item_and_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.db");
    let id: ConversationId = "acme/anna/1".parse().unwrap();
    let keys = Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), MemoryVault::new(), 2);
    let store = EncryptedStore::new(SqliteStore::open(&path).await.unwrap(), keys);
    fill(&store, &id).await;
    let file = Connection::open(&path).unwrap();
    file.pragma_update(None, "synchronous", "off").unwrap();
    for column in &COLUMNS {
        let place = format!("{}.{}", column.table, column.column);
        let before = read(&store, &id, column).await.unwrap();
        let stored = column.stored(&file);
        let sealed = column.sealed(&stored);
        let header = if column.is_text() { HEADER_IN_TEXT } else { HEADER };
        assert!(sealed.len() >= 49, "{place}: {sealed:?}");
        let (mut key, mut named) = (None, 0);
        for bit in 0..stored.len() * 8 {
            let at = bit / 8;
            let mut changed = stored.clone();
            changed[at] ^= 1 << (bit % 8);
            column.change(&file, &changed);
            let error = match read(&store, &id, column).await {
                Err(error) => causes(&error),
                // Changes next to the sealed item can have no consequence, or remove the item as a whole.
                Ok(read) => {
                    assert!(!sealed.contains(&at) && (read == before || read == "None"), "{place}, bit {bit}: {read}");
                    continue;
                }
            };
            assert!(error.contains(column.item), "{place}, bit {bit}: {error}");
            if at >= sealed.start + header && sealed.contains(&at) && column.is_record(changed[at]) {
                let (_, rest) = error.split_once("(key ").unwrap_or_else(|| panic!("{place}, bit {bit}: {error}"));
                assert_eq!(key.get_or_insert_with(|| rest[..16].to_owned()), &rest[..16], "{place}, bit {bit}");
                named += 1;
            }
        }
        assert!(named > 300, "{place}: {named}");
        column.change(&file, &stored);
        assert_eq!(read(&store, &id, column).await.unwrap(), before, "{place}");
    }
}
