//! Vectors that count words.

use std::collections::BTreeMap;

/// Returns the vector of a text, which has the length 1. A text without words counts as one word.
pub(super) fn of(text: &str, dimensions: usize, synonyms: &BTreeMap<String, String>) -> Vec<f32> {
    let mut counts = vec![0.0_f32; dimensions];
    let mut words: Vec<String> = text
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    if words.is_empty() {
        words.push(text.to_owned());
    }
    for word in &words {
        if let Some(count) = counts.get_mut(place(synonyms.get(word).unwrap_or(word), dimensions)) {
            *count += 1.0;
        }
    }
    let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
    counts.iter().map(|count| count / length).collect()
}

/// Returns the dimension that counts a word: its hash (FNV-1a), so that it is the same in every run.
fn place(word: &str, dimensions: usize) -> usize {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    // The upper bits are mixed better than the lower ones.
    usize::try_from((hash ^ (hash >> 32)) % dimensions.max(1) as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str, synonyms: &BTreeMap<String, String>) -> f32 {
        let vector = |text: &str| of(text, 64, synonyms);
        vector(a).iter().zip(vector(b)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn texts_with_common_words_are_near() {
        let none = BTreeMap::new();
        assert!((cosine("Rex, the dog!", "the dog REX", &none) - 1.0).abs() < 1e-6);
        assert!(cosine("my dog is called Rex", "the dog", &none) > 0.2);
        assert_eq!(cosine("dog", "puppy", &none), 0.0);
        let synonyms = [("puppy".to_owned(), "dog".to_owned())].into();
        assert!((cosine("dog", "Puppy", &synonyms) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn every_text_has_a_direction() {
        let none = BTreeMap::new();
        for text in ["?!", " ", "ß", "a a a b"] {
            for dimensions in [1, 3, 64] {
                let vector = of(text, dimensions, &none);
                let length = vector.iter().map(|number| number * number).sum::<f32>();
                assert_eq!(vector.len(), dimensions);
                assert!((length - 1.0).abs() < 1e-6, "{text}: {length}");
            }
        }
    }
}
