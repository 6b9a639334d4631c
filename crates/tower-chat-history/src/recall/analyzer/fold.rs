//! Folding of diacritics, so that `Zoë` finds `Zoe`.

use unicode_normalization::UnicodeNormalization;

/// Returns the characters of a word in lower case, without diacritics.
///
/// Accents of Latin, Greek and Cyrillic letters are dropped. Vowel signs of other scripts stay, because they are
/// letters of the word.
pub(super) fn folded(word: &str) -> impl Iterator<Item = char> {
    word.nfd().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).flat_map(|c| letters(c).into_iter().flatten())
}

/// Returns the plain letters of a letter whose diacritic is part of its shape.
const fn letters(c: char) -> [Option<char>; 2] {
    match c {
        'ß' => [Some('s'), Some('s')],
        'æ' => [Some('a'), Some('e')],
        'œ' => [Some('o'), Some('e')],
        'ø' => [Some('o'), None],
        'đ' | 'ð' => [Some('d'), None],
        'ł' => [Some('l'), None],
        'ı' => [Some('i'), None],
        'þ' => [Some('t'), Some('h')],
        'ς' => [Some('σ'), None],
        _ => [Some(c), None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accents_are_dropped_and_vowel_signs_stay() {
        for (word, plain) in [
            ("zoë", "zoe"),
            ("straße", "strasse"),
            ("ñandú", "nandu"),
            ("łódź", "lodz"),
            ("жёлтый", "желтыи"),
            ("हिन्दी", "हिन्दी"),
            ("กิน", "กิน"),
        ] {
            assert_eq!(folded(word).collect::<String>(), plain);
        }
    }
}
