//! `chat-history explain`

mod json;
mod table;

use std::{io::Write, sync::Arc};

use tower_chat_history::{ContextOptions, Engine, HistoryOptions, budget::ClearResults};
use tower_chat_history_core::{ConversationId, Erase, HistoryStoreExt as _, Seq};

use super::describe;
use crate::{
    args::Explain,
    outcome::{Failure, Outcome},
};

/// The number of exchanges that are read per call of the store.
const PAGE: usize = 64;

pub(crate) async fn run(
    store: Arc<dyn Erase>,
    args: &Explain,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    describe(&*store, &args.id).await?;
    let position = match args.position {
        Some(position) => position,
        None => newest_reply(&*store, &args.id).await?,
    };

    let engine = Engine::with_options(store, options(args));
    let Some(explanation) = engine.explain(&args.id, position).await? else {
        return Err(Failure::NoExchange { id: args.id.to_string(), position });
    };

    if args.json {
        json::write(&args.id, &explanation, out)?;
    } else {
        table::write(&args.id, &explanation, out)?;
    }
    Ok(Outcome::done_if(explanation.prompt.is_ok()))
}

/// Returns the options with which the prompt is made again. Results are cleared only up to the position that is stored
/// with the reply, so this option changes nothing for a service that clears none.
fn options(args: &Explain) -> HistoryOptions {
    let mut clear = ClearResults::new().exclude_tools(&args.excluded_tools);
    if let Some(placeholder) = &args.placeholder {
        clear = clear.placeholder(placeholder);
    }
    let context = ContextOptions::new().profile(args.profile.clone()).clear_results(clear);

    HistoryOptions::new().context(context).store_timeout(None)
}

/// Returns the position of the newest exchange that has a reply.
async fn newest_reply(store: &dyn Erase, id: &ConversationId) -> Result<Seq, Failure> {
    let conversation = store.conversation(id);
    let mut from = None;
    loop {
        let page = conversation.read_back(from, PAGE).await?;
        let with_reply = page.exchanges.iter().rfind(|recorded| !recorded.exchange.reply().is_empty());
        if let Some(recorded) = with_reply {
            return Ok(recorded.seq);
        }
        if page.earlier.is_none() {
            return Err(Failure::NoReply(id.to_string()));
        }
        from = page.earlier;
    }
}
