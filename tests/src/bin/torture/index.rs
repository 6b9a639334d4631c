//! The indexes for recall that the workers make.

use std::sync::Arc;

use test_providers::signing::SigningDialect;
use tower_chat_history::{
    recall::{Analyzer, Language, StoredIndex},
    store::Attach,
};
use tower_chat_history_recall::Gate;

/// The number of indexes of each conversation. Each has its own analyzer, so there is more to write and to interrupt.
pub(crate) const INDEXES: usize = 3;

/// Returns the analyzer of an index.
fn analyzer(number: usize) -> Analyzer {
    Analyzer::new([[Language::English, Language::German, Language::French][number % INDEXES]])
}

/// Returns one of the indexes, which knows nothing about earlier steps. Every search shows what it finds.
pub(crate) fn index(store: &Arc<dyn Attach>, number: usize) -> StoredIndex {
    StoredIndex::new(Arc::clone(store), analyzer(number)).dialect(&SigningDialect).gate(Gate::always_open())
}

/// Returns an index whose steps remove the one with this number.
pub(crate) fn remover(store: &Arc<dyn Attach>, number: usize) -> StoredIndex {
    let index = StoredIndex::new(Arc::clone(store), analyzer(number + 1));
    index.dialect(&SigningDialect).former_analyzers([analyzer(number).id()])
}
