//! Properties: splitting a text at boundaries of tokens does not change its count.

use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, proptest},
    sample::select,
};
use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};
use tower_chat_history_conformance::shorthand::cases;

use super::{is_boundary, pieces};

/// All kinds of characters that the regular expressions of the encodings distinguish: white space, letters by case,
/// marks, digits, contractions, `/`, and others. They are separated by `¦`.
const ATOMS: &str = concat!(
    " ¦  ¦    ¦\n¦\n\n¦\r\n¦\r¦\t¦\u{b}¦\u{85}¦\u{a0}¦\u{2028}¦\u{3000}¦\u{200b}¦\u{200d}¦\u{feff}¦",
    "a¦A¦s¦S¦ll¦the¦The¦HTTP¦camelCase¦ß¦É¦ſ¦\u{212a}¦ǅ¦ʰ¦\u{301}¦e\u{301}¦क्षि¦今天¦天气很好¦ひらがな¦カナ¦한국어¦、¦。¦，¦",
    "0¦7¦42¦2024¦123456¦٣¦Ⅷ¦²¦'¦'s¦'LL¦’s¦/¦//¦</¦://¦.¦,¦!?¦\"¦{\"¦^¦_¦😀¦👩\u{200d}👩\u{200d}👧¦<|endoftext|>",
);

fn text(atoms: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = String> {
    vec(select(ATOMS.split('¦').collect::<Vec<_>>()), atoms).prop_map(|atoms| atoms.concat())
}

fn encodings() -> [&'static CoreBPE; 2] {
    [o200k_base_singleton(), cl100k_base_singleton()]
}

/// Splits a text at every boundary.
fn split_at_all_boundaries(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for ((_, before), (at, after)) in text.char_indices().zip(text.char_indices().skip(1)) {
        if is_boundary(before, after) {
            pieces.push(&text[start..at]);
            start = at;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

fn is_split_at_boundaries(pieces: &[&str]) -> bool {
    pieces.windows(2).all(|pair| {
        let before = pair[0].chars().next_back();
        let after = pair[1].chars().next();
        before.zip(after).is_some_and(|(before, after)| is_boundary(before, after))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4_000)))]

    #[test]
    fn no_token_extends_across_a_boundary(text in text(0..40)) {
        for encoding in encodings() {
            let apart: Vec<_> =
                split_at_all_boundaries(&text).into_iter().flat_map(|piece| encoding.encode_ordinary(piece)).collect();
            prop_assert_eq!(apart, encoding.encode_ordinary(&text), "{:?}", text);
        }
    }

    #[test]
    fn pieces_are_bounded_and_joined_they_are_the_text(text in text(0..60), bound in 0..64_usize) {
        let pieces: Vec<_> = pieces(&text, bound).collect();
        prop_assert_eq!(pieces.concat(), &*text);
        for piece in pieces {
            prop_assert!(!piece.is_empty());
            prop_assert!(piece.len() <= bound || piece.chars().count() == 1, "{:?}", piece);
        }
    }

    #[test]
    fn a_text_of_short_words_has_the_count_of_its_pieces(words in vec((text(0..6), select(&[" ", "\nx"][..])), 1..60)) {
        let text: String = words.iter().flat_map(|(word, end)| [word.trim_end(), "x", end]).collect();
        let longest = split_at_all_boundaries(&text).into_iter().map(str::len).max().unwrap_or(0);
        for bound in [longest, longest + 7, 2 * longest] {
            let pieces: Vec<_> = pieces(&text, bound).collect();
            prop_assert!(is_split_at_boundaries(&pieces), "{:?}", pieces);
            for encoding in encodings() {
                let tokens: usize = pieces.iter().map(|piece| encoding.count_ordinary(piece)).sum();
                prop_assert_eq!(tokens, encoding.count_ordinary(&text), "{:?}", text);
            }
        }
    }
}

#[test]
fn a_piece_ends_at_the_last_boundary_or_else_at_the_bound() {
    for (text, bound, expected) in [
        ("", 4, vec![]),
        ("one two", 16, vec!["one two"]),
        ("one two three", 9, vec!["one two", " three"]),
        ("one\ntwo\nthree", 8, vec!["one\ntwo\n", "three"]),
        (r#"{"a":1,"b":2}"#, 6, vec![r#"{"a":1"#, r#","b":2"#, "}"]),
        ("aaaaaaaaaa", 4, vec!["aaaa", "aaaa", "aa"]),
        ("今天天气", 7, vec!["今天", "天气"]),
        ("今天", 1, vec!["今", "天"]),
    ] {
        assert_eq!(pieces(text, bound).collect::<Vec<_>>(), expected, "{text}");
    }
}
