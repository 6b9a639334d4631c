//! No text makes a counter panic or take long, so a hostile message cannot block a service.
//!
//! Time is the processor time of the thread that counts. A thread that waits for its turn on a busy machine uses none.
//! `cargo test --test tokens_hostile -- --nocapture` prints the times. The texts have 512 KiB each, or the
//! number of KiB in the variable `TEST_TEXT_KIB`.

#![allow(clippy::unwrap_used)] // A test may.

use std::{env, iter, sync::LazyLock, thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tower_chat_history::tokens::TokenCounter;
#[cfg(feature = "bpe-openai")]
use tower_chat_history_openai::tokens::BpeOpenai;
use tower_chat_history_openai::tokens::Tiktoken;

const MIB: usize = 1 << 20;

/// The size of each text in bytes.
static SIZE: LazyLock<usize> =
    LazyLock::new(|| env::var("TEST_TEXT_KIB").map_or(MIB / 2, |kib| kib.parse::<usize>().unwrap() << 10));

/// The largest time for a MiB. It is several times the measured time: the test is about denial of service, not speed.
const LIMIT: Duration = Duration::from_secs(1);

/// A generator whose numbers are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u32) -> u32 {
        // Knuth's MMIX generator. Its upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 32) % u64::from(below)) as u32
    }

    fn char(&mut self, from: char, count: u32) -> char {
        char::from_u32(u32::from(from) + self.next(count)).unwrap()
    }

    fn one_of(&mut self, chars: &[char]) -> char {
        chars[self.next(chars.len() as u32) as usize]
    }
}

fn repeated(text: &str) -> String {
    text.repeat(*SIZE / text.len())
}

/// Returns a text of characters that the closure makes.
fn random(seed: u64, mut next: impl FnMut(&mut Random) -> char) -> String {
    let mut random = Random(seed);
    let mut text = String::with_capacity(*SIZE + 4);
    while text.len() < *SIZE {
        text.push(next(&mut random));
    }
    text
}

fn inputs() -> Vec<(&'static str, String)> {
    let base64: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let white = [' ', ' ', '\t', '\n', '\r', '\u{a0}', '\u{3000}', '\u{2028}'];
    let bytes: Vec<u8> = {
        let mut random = Random(5);
        iter::repeat_with(|| random.next(256) as u8).take(*SIZE / 2).collect()
    };
    vec![
        ("a", repeated("a")),
        ("A", repeated("A")),
        ("Aa", repeated("Aa")),
        ("spaces", repeated(" ")),
        ("spaces, x", repeated(" ") + "x"),
        ("spaces, x, spaces", repeated(" ") + "x" + &repeated(" ")[*SIZE / 2..]),
        ("tabs", repeated("\t")),
        ("no-break spaces", repeated("\u{a0}")),
        ("newlines", repeated("\n")),
        ("CR-LF", repeated("\r\n")),
        ("newlines, x", repeated("\n") + "x"),
        ("^", repeated("^")),
        ("-", repeated("-")),
        ("*", repeated("*")),
        ("=", repeated("=")),
        ("lines of -", repeated(&("-".repeat(127) + "\n"))),
        ("long lines of -", repeated(&("-".repeat(1023) + "\n"))),
        ("/", repeated("/")),
        ("'", repeated("'")),
        ("combining marks", repeated("\u{301}")),
        ("one emoji", repeated("😀")),
        ("special tokens", repeated("<|endoftext|>")),
        ("digits", repeated("0123456789")),
        ("random emoji", random(1, |random| random.char('😀', 0x50))),
        ("random CJK", random(2, |random| random.char('一', 0x5200))),
        ("random a-z", random(3, |random| random.char('a', 26))),
        ("random case", random(4, |random| random.one_of(&['a', 'b', 'A', 'B', 'ʰ', '\u{301}', '\'', 's']))),
        ("random base64", random(6, |random| random.one_of(&base64))),
        ("random digits", random(7, |random| random.char('0', 10))),
        ("random white space", random(8, |random| random.one_of(&white))),
        ("random white space and punctuation", random(9, |random| random.one_of(&[' ', '\n', '\t', '/', '.', '\'']))),
        ("random bytes", String::from_utf8_lossy(&bytes).into_owned()),
        ("random characters", random(10, |random| char::from_u32(random.next(0x11_0000)).unwrap_or('x'))),
    ]
}

/// Returns the processor time that this thread has used.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the tokens, and the processor time of counting them.
fn timed(counter: &dyn TokenCounter, text: &str) -> (u32, Duration) {
    let before = thread_time();
    let tokens = counter.count_text(text);
    (tokens, thread_time() - before)
}

fn check(counter: &dyn TokenCounter, inputs: &[(&str, String)]) {
    // The first count builds the tables.
    counter.count_text("a");
    for (name, text) in inputs {
        let limit = LIMIT.mul_f64(text.len() as f64 / MIB as f64);
        let (tokens, took) = timed(counter, text);
        println!("{counter:?}: {name}: {} bytes, {tokens} tokens, {} ms", text.len(), took.as_millis());
        assert!(took <= limit, "{counter:?}: {name}: {took:?}");
        // Neither encoding has tokens of more than 128 bytes, and no byte costs more than one token.
        assert!((text.len() / 128..=text.len()).contains(&(tokens as usize)), "{counter:?}: {name}: {tokens}");
    }
}

#[test]
fn no_text_makes_a_counter_panic_or_take_long() {
    let inputs = inputs();
    let counters: &[&dyn TokenCounter] = &[
        &Tiktoken::o200k(),
        &Tiktoken::cl100k(),
        #[cfg(feature = "bpe-openai")]
        &BpeOpenai::o200k(),
        #[cfg(feature = "bpe-openai")]
        &BpeOpenai::cl100k(),
    ];
    thread::scope(|scope| {
        for counter in counters {
            scope.spawn(|| check(*counter, &inputs));
        }
    });
}
