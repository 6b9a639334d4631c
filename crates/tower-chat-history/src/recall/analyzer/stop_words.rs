//! Words that are too frequent to say what a text is about.

use std::collections::HashMap;

use super::Language;

/// For each language that has a list, its stop words in lower case, separated by spaces.
const LISTS: &str = include_str!("stop_words.json");

/// Returns the stop words of these languages. A language may have none.
pub(super) fn stop_words(languages: &[Language]) -> impl Iterator<Item = &'static str> {
    // A test reads the lists.
    let lists: HashMap<&str, &str> = serde_json::from_str(LISTS).unwrap_or_default();
    let lists: Vec<&str> = languages.iter().filter_map(|language| lists.get(language.name()).copied()).collect();
    lists.into_iter().flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_can_be_read_and_are_of_known_languages() {
        let lists: HashMap<&str, &str> = serde_json::from_str(LISTS).unwrap();
        assert!(lists.keys().all(|name| Language::ALL.iter().any(|language| language.name() == *name)));
        assert_eq!(lists.len(), 7);
        assert!(stop_words(&[Language::English, Language::German]).count() > 200);
        assert_eq!(stop_words(&[Language::Danish]).count(), 0);
    }
}
