//! What would this policy do to my traffic? `cargo run --release -p examples --bin replay -- --context 8000 recorded.jsonl`.
//!
//! Recorded conversations go through the whole layer once more, under a policy that is given by flags. In place of the model
//! stands one that answers what was recorded, and reports how much of each prompt a provider's cache would have had. Nothing
//! leaves this process.
//!
//! The input is conversations as JSON, one behind the other in files or on stdin: `{"id": …, "messages": [chat-completions
//! messages]}`. Other fields are ignored. Or `--synthetic TURNS`, which makes one up.
//!
//! Each reply in a recording is one call through the layer: the system messages so far are its head, what came since the
//! reply before (a question, or tool results) is its input. A call that cannot be made to fit is counted and not made; its
//! exchange goes into the store by hand, so that the conversation goes on as it did.
//!
//! A line a call says how large the prompt would have been and was, what was left out, what is reserved for the reply, and
//! how much of the prompt was warm: as far as its beginning, in whole messages, was that of any earlier prompt of the run.
//! Caches that forget are not modelled. Then come the totals, with the cost of the input against that of a window that
//! slides under the same limit, in the same run.
//!
//! With `--summarize`, what leaves the window is summarized after replies: by extracts in place of a model, which are as
//! large as they may be. Their calls and tokens are in the totals and in the cost: all that a summarizer is given as cold
//! input, what it writes at 4 times that price. Users take their time: each call is made when the summary before it is done,
//! or else, with `--back-to-back`, at once.

mod args;
mod model;
mod output;
mod plot;
mod policy;
mod prefixes;
mod recording;
mod replay;
mod summaries;
mod synthetic;

use std::{
    io::{self, BufWriter},
    process::ExitCode,
};

use tower_chat_history::BoxError;

use self::{args::Args, output::Output, policy::Policy, recording::Recording, replay::replay};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::from_command_line()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the lines has enough of them.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let recordings = match args.synthetic {
        Some(turns) => vec![synthetic::recording(turns, args.head, args.seed)],
        None => Recording::read_all(&args.files)?,
    };
    let policy = Policy::of(&args);
    let mut output = Output::new(args.json, BufWriter::new(io::stdout()));
    let mut sizes = Vec::new();
    let totals = replay(&recordings, &policy, |call| {
        sizes.extend(call.tokens().map(|tokens| (tokens.sent, tokens.warm)));
        output.call(call)
    })
    .await?;
    let sliding = replay(&recordings, &policy.sliding(), |_| Ok(())).await?;
    output.totals(&totals, &sliding, args.cached_price)?;
    if let Some(path) = &args.plot {
        plot::write(path, &sizes)?;
    }
    Ok(())
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
