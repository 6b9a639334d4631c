//! Random calls of a store by two handles. Each answer must equal the model's, and so must the log at the
//! end.

mod calls;
mod listed;
mod model;
mod open;

use tokio::runtime::Builder;
use tower_chat_history::{
    ConversationId,
    store::{Epoch, Incarnation},
};

use self::{model::Life, open::Opened};
use super::{Checked, Figures, Ingredients, outcome::Violation};
use crate::rng::SeededRng;

/// Runs one case with a store in this process.
pub(super) fn local(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    run(seed, ingredients, false)
}

/// Runs one case with a store on a server. If no server is installed, it does nothing.
pub(super) fn remote(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    run(seed, ingredients, true)
}

fn run(seed: u64, ingredients: &Ingredients, remote: bool) -> Checked<Figures> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut figures = Figures::default();
        let opened = if remote { Opened::remote(seed).await } else { Some(Opened::local(seed).await) };
        let Some(opened) = opened else {
            figures.count("left out: no server");
            return Ok(figures);
        };
        let mut rng = SeededRng::new(seed);
        let name = opened.name;
        let mut case = Case {
            store: opened,
            ingredients: ingredients.clone(),
            // The cases of a process share a server.
            id: ConversationId::new([&seed.to_string(), *rng.pick(&["a", "a/b", "%2F", "ü", " "])]).unwrap(),
            life: None,
            ended: Vec::new(),
            epochs: Vec::new(),
            known: Vec::new(),
            made: 0,
            figures,
            rng,
        };
        let calls = case.rng.between(20, 120);
        for number in 0..calls {
            case.call().await.map_err(|found| {
                Violation::new("every store keeps the contract", format!("{name}, call {number}: {found}"))
            })?;
        }
        case.figures.add(name, calls);
        Ok(case.figures)
    })
}

/// A conversation in a store, and the expected state.
struct Case {
    store: Opened,
    ingredients: Ingredients,
    id: ConversationId,
    life: Option<Life>,
    /// The incarnations that have ended.
    ended: Vec<Incarnation>,
    /// The epochs of loads that found no conversation. `true` if the conversation was erased since.
    epochs: Vec<(Epoch, bool)>,
    /// The known states of earlier windows.
    known: Vec<tower_chat_history::store::KnownState>,
    /// The number of exchanges made so far.
    made: u64,
    figures: Figures,
    rng: SeededRng,
}
