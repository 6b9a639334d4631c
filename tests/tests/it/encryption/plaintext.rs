//! The files and dumps of every store have no plaintext of encrypted conversations, and no digest of it.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tests::{FullStore, MASTER_KEY};
use tower_chat_history::{
    Message,
    dialect::Digest,
    encryption::{EncryptedStore, KeyRing, Keys, MemoryVault},
};

use crate::erasure::secrets::{
    places::{Place, PostgresPlace, RedisPlace, SqlitePlace},
    plant::{PERSON, plant_all, snapshot},
    search::{read_files, secret, secrets_in},
};

const CONVERSATIONS: usize = 20;

/// The places that stay visible: ids, exchange ids and names of profiles.
const VISIBLE: [&str; 3] = ["id", "exchange", "profile"];

#[tokio::test]
async fn nothing_is_readable_in_sqlite() {
    nothing_is_readable(SqlitePlace::new()).await;
}

#[tokio::test]
async fn nothing_is_readable_in_postgres() {
    if PostgresPlace::is_available() {
        nothing_is_readable(PostgresPlace::new().await).await;
    }
}

#[tokio::test]
async fn nothing_is_readable_in_redis() {
    if RedisPlace::is_available() {
        nothing_is_readable(RedisPlace::new()).await;
    }
}

/// Returns the digests of a guess, as bytes, as digits and as base64.
fn digests(guess: &str) -> Vec<Vec<u8>> {
    let sha = Sha256::digest(guess).to_vec();
    let hex = sha.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut digests = vec![sha[..16].to_vec(), hex.as_bytes()[..24].to_vec()];
    for digest in [Digest::of(guess.as_bytes()), Message::user(guess).digest()] {
        let number = u64::from_str_radix(&digest.to_string(), 16).unwrap();
        digests.extend([number.to_be_bytes().to_vec(), number.to_le_bytes().to_vec()]);
        digests.push(digest.to_string().into_bytes());
        digests.push(serde_json::to_string(&digest).unwrap().trim_matches('"').into());
    }
    digests
}

/// Returns `true` if some of the parts are in the bytes.
fn contains_any(bytes: &[u8], parts: &[Vec<u8>]) -> bool {
    let mut begins = vec![Vec::new(); 1 << 16];
    for part in parts {
        begins[usize::from(u16::from_be_bytes([part[0], part[1]]))].push(part);
    }
    let mut pairs = bytes.iter().zip(bytes.iter().skip(1)).enumerate();
    pairs.any(|(at, (one, two))| {
        begins[usize::from(u16::from_be_bytes([*one, *two]))].iter().any(|part| bytes[at..].starts_with(part))
    })
}

#[test]
fn a_digest_is_found() {
    let parts = [b"abcd".to_vec(), b"xyz".to_vec()];
    assert!(contains_any(b"..abcd", &parts) && contains_any(b"xyz", &parts));
    assert!(!contains_any(b"abcxy", &parts) && !contains_any(b"", &parts));
}

async fn nothing_is_readable(place: impl Place) {
    let keys = Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), MemoryVault::new(), 2);
    let store: Arc<dyn FullStore> = Arc::new(EncryptedStore::new(place.open().await, keys));
    plant_all(&store, PERSON, CONVERSATIONS).await;
    let read = snapshot(&store, [PERSON]).await;
    assert!(read.values().all(|content| content.contains(&secret("question"))), "it is stored");
    place.write_all_files();
    place.do_the_operators_steps();

    let dump = place.dump();
    let found = [place.found(), dump.as_deref().map(secrets_in).unwrap_or_default()].concat();
    let is_visible = |found: &String| {
        let of_place = found.rsplit(": ").next().unwrap();
        VISIBLE.iter().any(|visible| of_place.starts_with(visible))
    };
    assert!(found.iter().any(is_visible), "the files are those of the store");
    let readable: Vec<&String> = found.iter().filter(|found| !is_visible(found)).collect();
    assert_eq!(readable, [""; 0]);
    let guesses = ["question", "reply", "last", "summary", "recalled", "title"];
    let digests = guesses.map(|at| digests(&secret(at))).concat();
    read_files(&place.directory(), |name, bytes| {
        assert!(!contains_any(bytes, &digests), "{name} has a digest of a text");
    });
    assert!(!contains_any(&dump.unwrap_or_default(), &digests), "the dump has a digest of a text");
}
