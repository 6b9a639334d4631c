//! Conversations that have a secret in every place.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tests::FullStore;
use tower_chat_history::{
    ConversationId, HistoryStore as _, Message,
    dialect::Digest,
    store::{
        Append, Citation, CompactionVersion, Cut, Cuts, Exchange, ExchangeId, Expect, Labels, LabelsVersion, List as _,
        Origin, Profile, PromptDigests, Provenance, Recalled, Seq, Summary,
    },
};

use super::{super::world::prefix, search::secret};

/// The person whose conversations are erased.
pub(crate) const PERSON: &str = "acme/nemo";
/// People with similar ids, and the tenant itself.
pub(super) const NEIGHBORS: [&str; 3] = ["acme/nemo-2", "acme/nem", "acme-2/nemo"];

/// The number of conversations that are stored at the same time.
const AT_ONCE: usize = 16;

/// Returns what a person says at a place. Only the person who is erased has a secret.
fn said(person: &str, place: &str) -> String {
    if person == PERSON { secret(place) } else { format!("something-{place}") }
}

/// Returns the id of a conversation.
pub(super) fn id(person: &str, number: usize) -> ConversationId {
    format!("{person}/{}-{number}", said(person, "id")).parse().unwrap()
}

/// Stores this many conversations of a person.
pub(crate) async fn plant_all(store: &Arc<dyn FullStore>, person: &str, conversations: usize) {
    let planting = (0..conversations).map(|number| plant(store, person, number));
    stream::iter(planting).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn plant(store: &Arc<dyn FullStore>, person: &str, number: usize) {
    let (said, id) = (|place: &str| said(person, place), id(person, number));
    let name = |turn: &str| ExchangeId::new(format!("{}-{turn}", said("exchange"))).unwrap();
    let (call, arguments) = (said("call"), said("arguments"));
    let call = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{call}","type":"function","function":{{"name":"f","arguments":"{{\"x\":\"{arguments}\"}}"}}}}]}}"#
    );
    let first = [Message::user(format!("about {}", said("question"))), Message::from_json(call).unwrap()];
    let appended = store.append(&id, Append::new(Expect::Absent, Exchange::new(name("one"), first))).await.unwrap();
    let incarnation = appended.revision.incarnation();

    let second = [Message::tool(said("call"), said("result")), Message::assistant(said("reply"))];
    let mut second = Exchange::new(name("two"), second).continuing(Seq::FIRST);
    second.recalled = Some(Recalled::new(said("recalled"), vec![Citation::new(Seq::FIRST, 0..1)]));
    let origin = Origin::unknown().provider(said("provider")).route(said("route")).account(said("account"));
    let cut = Cut::window_from(Seq::FIRST).positions;
    let digests = PromptDigests::new(Digest::of(b"a"), Digest::of(b"b"));
    second.provenance = Some(Provenance::new(1, cut, digests, origin));
    store.append(&id, Append::new(Expect::AnyIn(incarnation), second)).await.unwrap();

    let third = Exchange::new(name("three"), [Message::user("more"), Message::assistant(said("last"))]);
    let with_summary = |place: &str| {
        let mut cut = Cut::window_from(Seq::new(2));
        let mut summary = Summary::new(said(place));
        summary.model = Some(said("model"));
        cut.set_summary(summary, Seq::new(2));
        cut
    };
    let cuts = Cuts::new(with_summary("summary")).replacing(Some(with_summary("replaced")));
    let compact = cuts.compact(Profile::new(said("profile")).unwrap(), CompactionVersion::NONE).unwrap();
    store.append(&id, Append::new(Expect::AnyIn(incarnation), third).compact(compact)).await.unwrap();

    let labels = Labels::new([(said("label"), said("title"))]).unwrap();
    store.set_labels(&id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
}

/// Returns everything that can be read of some people, as text.
pub(crate) async fn snapshot<const N: usize>(
    store: &Arc<dyn FullStore>,
    people: [&str; N],
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for person in people {
        for listed in store.list(&prefix(person), None, 1_000).await.unwrap().conversations {
            let log = store.read(&listed.id, Seq::FIRST, 100).await.unwrap();
            let profile = Profile::new(said(person, "profile")).unwrap();
            let load = tower_chat_history::store::Load::new().profile(profile);
            let loaded = store.load(&listed.id, load).await.unwrap();
            // The messages themselves: `Debug` leaves them out.
            let texts: Vec<String> =
                log.exchanges.iter().flat_map(|one| &one.exchange.messages).map(|one| one.json().to_owned()).collect();
            kept.insert(listed.id.to_string(), format!("{listed:?} {log:?} {texts:?} {loaded:?}"));
        }
    }
    assert!(!kept.is_empty());
    kept
}
