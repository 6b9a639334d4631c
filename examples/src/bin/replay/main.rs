//! Replays recorded conversations, and shows the prompts that a policy would send, and their cost.
//!
//! ```text
//! cargo run --release -p examples --bin replay -- --context 8000 recorded.jsonl
//! ```
//!
//! Each recorded conversation goes through the whole layer again, under the policy that the flags describe. A mock
//! model returns the recorded replies. It reports the part of each prompt that a provider's prefix cache would have
//! had. Nothing leaves this process.
//!
//! The input is a sequence of JSON objects, in files or on stdin:
//!
//! ```text
//! {"id": "…", "messages": [{"role": "user", "content": "…"},
//!                          {"role": "assistant", "content": "…"}]}
//! ```
//!
//! Other fields are ignored. `--synthetic TURNS` generates a conversation instead.
//!
//! Each reply in a recording becomes one call through the layer. The system messages before the reply are the call's
//! head. The messages since the previous reply (a question, or tool results) are its input. If no prompt of a call
//! fits, the call is counted as infeasible and skipped. If its input breaks the chat rules, it is counted as malformed
//! and skipped. The recorded exchange of a skipped call is stored, so that the conversation continues as recorded.
//!
//! For each call, one line shows the size of the prompt before and after trimming, the messages that were left out, the
//! reply reserve, and the cached prefix. The cached prefix is the beginning of the prompt that is also the beginning of
//! an earlier prompt of the run, in whole messages. In this simulation, prefixes stay in the cache until the end of the
//! run. After all calls, the totals are printed, with the cost of the input compared to a sliding window under the same
//! limit.
//!
//! With `--summarize`, the messages that are about to leave the window are summarized after each reply. The program
//! uses extracts of the messages as summaries, of up to the given size. The totals and the cost include the summaries:
//! the summarizer's input costs as much as uncached input, and its output 4 times as much. By default, each call starts
//! after the previous summary is complete, as if users paused between questions. With `--back-to-back`, it starts
//! immediately.
//!
//! With `--recall`, earlier messages are shown again if a question needs them. The totals include them.
//!
//! `--plot` draws the prompt and its cached prefix over the calls, for the policy and for the sliding window. This
//! command generates the chart in the README:
//!
//! ```text
//! cargo run --release -p examples --bin replay -- \
//!     --synthetic 120 --head 1000 --context 8000 --plot docs/replay.svg
//! ```

mod args;
mod model;
mod output;
mod plot;
mod policy;
mod recording;
mod replay;

use std::{
    io::{self, BufWriter},
    process::ExitCode,
};

use tower_chat_history::BoxError;

use self::{
    args::Args,
    output::Output,
    plot::{Bar, Panel},
    policy::{Policy, SLIDING},
    recording::Recording,
    replay::{Tokens, replay},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::from_command_line()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    let recordings = match args.synthetic {
        Some(turns) => vec![recording::generate(turns, args.head, args.seed)],
        None => Recording::read_all(&args.files)?,
    };
    let mut output = Output::new(args.json, BufWriter::new(io::stdout()));

    let policy = Policy::of(&args);
    let mut panel = Panel { title: policy.name.clone(), calls: Vec::new() };
    let totals = replay(&recordings, &policy, |call| {
        panel.calls.extend(call.tokens().map(bar));
        output.call(call)
    })
    .await?;

    let mut sliding_panel = Panel { title: SLIDING.to_owned(), calls: Vec::new() };
    let sliding = replay(&recordings, &policy.sliding(), |call| {
        sliding_panel.calls.extend(call.tokens().map(bar));
        Ok(())
    })
    .await?;

    output.totals(&totals, &sliding, args.cached_price)?;
    if let Some(path) = &args.plot {
        // A sliding window is not compared with itself.
        let panels = if args.sliding { vec![panel] } else { vec![panel, sliding_panel] };
        plot::write(path, &panels)?;
    }
    Ok(())
}

const fn bar(tokens: &Tokens) -> Bar {
    Bar { prompt: tokens.sent, cached: tokens.cached, limit: tokens.limit }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
