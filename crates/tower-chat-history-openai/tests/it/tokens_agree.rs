//! The two counters return the same counts. They have the same names, so each uses the stored counts of the other.

use std::{collections::HashSet, fs, path::Path, thread};

use tower_chat_history::tokens::TokenCounter;
use tower_chat_history_openai::tokens::{BpeOpenai, Tiktoken};

/// A generator whose numbers are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        // Knuth's MMIX generator. Its upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as usize % below
    }

    fn text(&mut self, atoms: &[&str], most: usize) -> String {
        (0..self.below(most)).map(|_| atoms[self.below(atoms.len())]).collect()
    }
}

fn assert_same_counts(text: &str) {
    for (tiktoken, other) in [(Tiktoken::o200k(), BpeOpenai::o200k()), (Tiktoken::cl100k(), BpeOpenai::cl100k())] {
        assert_eq!(tiktoken.name(), other.name());
        assert_eq!(tiktoken.count_text(text), other.count_text(text), "{tiktoken:?}: {text:?}");
    }
}

/// The sources of all crates of this repository.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn code_and_prose_have_the_same_counts() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    assert!(files.len() > 50, "{}", files.len());
    let lines: HashSet<&str> = files.iter().flat_map(|file| file.lines()).collect();
    let lines: Vec<&str> = lines.into_iter().collect();
    // Each thread gets every other file and line, because this is the longest test of the crate.
    thread::scope(|scope| {
        for half in 0..2 {
            let files = files.iter().skip(half).step_by(2);
            let mut random = Random(1 + half as u64);
            let lines = lines.iter().skip(half).step_by(2);
            scope.spawn(move || {
                files.for_each(|file| check_file(file, &mut random));
                lines.for_each(|line| assert_same_counts(line));
            });
        }
    });
}

/// Checks a file, and texts that begin and end within words.
fn check_file(file: &str, random: &mut Random) {
    assert_same_counts(file);
    let places: Vec<usize> = file.char_indices().map(|(at, _)| at).collect();
    for _ in 0..if places.is_empty() { 0 } else { 5 } {
        let start = places[random.below(places.len())];
        let end = places[random.below(places.len())];
        assert_same_counts(&file[start.min(end)..start.max(end)]);
    }
}

#[test]
fn words_of_many_scripts_have_the_same_counts() {
    let words = concat!(
        "the¦ The¦ and¦ don't¦ WE'LL¦ it’s¦ naïve¦ Straße¦ HTTPServer¦ snake_case¦ camelCase¦",
        "今天¦天气很好，¦我们一起去公园散步吧。¦ひらがな¦カタカナー¦한국어를 ¦ مرحبا¦ שלום¦ Привет¦ नमस्ते¦ สวัสดี¦ Ελλάδα¦",
        "😀¦ 👍🏽¦👩\u{200d}👩\u{200d}👧¦🇩🇪¦ 1¦ 1234567¦3.14¦-1e10¦ 2024-01-01¦12:30¦ $5¦\n¦\n\n¦\r\n¦\t¦  ¦    ¦",
        ".¦, ¦! ¦?\n¦ (¦)¦{\"a\":¦[1,2]¦://¦/¦</p>¦ ```¦----¦====¦****¦<|endoftext|>",
    );
    let words: Vec<&str> = words.split('¦').collect();
    let mut random = Random(2);
    for _ in 0..6_000 {
        assert_same_counts(&random.text(&words, 40));
    }
}

#[test]
fn hostile_strings_have_the_same_counts() {
    let alphabet = concat!(
        "  \n\r\t\u{b}\u{85}\u{a0}\u{2028}\u{3000}\u{180e}\u{200b}\u{200d}\u{feff}\0",
        "aAsSlLéÉſ\u{212a}ǅʰª\u{301}\u{20dd}\u{93f}一ーก09٣Ⅷ²½'’/.-_^\"\\<|😀🏽\u{fe0f}\u{fffd}\u{e000}\u{10ffff}",
    );
    let alphabet: Vec<&str> = alphabet.split("").collect();
    let mut random = Random(3);
    for _ in 0..20_000 {
        assert_same_counts(&random.text(&alphabet, 24));
    }
    for _ in 0..2_000 {
        // With few different characters, there are long runs.
        let few: Vec<&str> = (0..3).map(|_| alphabet[random.below(alphabet.len())]).collect();
        assert_same_counts(&random.text(&few, 600));
    }
}

#[test]
fn arbitrary_characters_have_the_same_counts() {
    let mut random = Random(4);
    for _ in 0..4_000 {
        let text: String =
            (0..random.below(40)).filter_map(|_| char::from_u32(random.below(0x11_0000) as u32)).collect();
        assert_same_counts(&text);
        let text: String = (0..random.below(40)).filter_map(|_| char::from_u32(random.below(0x3000) as u32)).collect();
        assert_same_counts(&text);
    }
}

#[test]
fn runs_of_one_character_have_the_same_counts() {
    for char in (' '..='~').chain(['\t', '\n', '\r', 'é', '一', '😀', '\u{301}']) {
        for length in (1..140).chain([255, 256, 257, 1_000, 4_097]) {
            assert_same_counts(&char.to_string().repeat(length));
        }
    }
}

#[test]
fn long_texts_without_a_place_to_split_have_the_same_counts() {
    let mut random = Random(5);
    let letters: Vec<&str> = "abcdefghijklmnopqrstuvwxyz".split("").collect();
    for text in [
        random.text(&letters, 400_000),
        random.text(&["今", "天", "气", "很", "好", "，"], 100_000),
        random.text(&[" ", "\t", "\n", "\u{a0}"], 100_000),
        " ".repeat(50_000) + "x",
        "0123456789".repeat(5_000),
        "Aa'".repeat(20_000),
    ] {
        assert_same_counts(&text);
    }
}
