//! How a bucket is reached: endpoint, region, credentials, encryption.

use std::collections::BTreeMap;
use std::fmt;

/// Settings of buckets as names and values, as the services' own tools have them in the
/// environment: `aws_access_key_id`, `aws_endpoint_url`, `aws_session_token`,
/// `aws_server_side_encryption`, `azure_storage_account_key`, `google_application_credentials`.
///
/// Values may be secret: they are in no message, and not in what `Debug` shows.
#[derive(Clone, Default)]
pub struct BucketOptions {
    values: BTreeMap<String, Value>,
}

#[derive(Clone)]
struct Value {
    text: String,
    /// Whether somebody meant it for a bucket, so that a name that nobody knows is an error.
    meant: bool,
}

/// Beginnings of names, one for each kind of bucket.
const FAMILIES: [&str; 3] = ["aws_", "azure_", "google_"];

impl BucketOptions {
    /// Takes those of the environment's variables that may tell about buckets.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut options = Self::default();
        for (name, text) in variables {
            let name = name.to_ascii_lowercase();
            // An empty variable stands for none, as it does for the services' tools.
            if FAMILIES.iter().any(|family| name.starts_with(family)) && !text.is_empty() {
                options.values.insert(name, Value { text, meant: false });
            }
        }
        options
    }

    /// Sets one. A name that the kind of bucket does not know is an error when it is opened.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let text = value.to_owned();
        let name = name.to_ascii_lowercase();
        self.values.insert(name, Value { text, meant: true });
        self
    }

    /// A value by its name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// Those of one kind of bucket with their keys.
    ///
    /// # Errors
    /// The name that is not a key, if it was meant as one.
    pub(super) fn of<K: std::str::FromStr>(
        &self,
        family: &str,
        ours: &[&str],
    ) -> Result<Vec<(K, &str)>, String> {
        let mut found = Vec::new();
        for (name, value) in &self.values {
            if !name.starts_with(family) || ours.contains(&name.as_str()) {
                continue;
            }
            match name.parse() {
                Ok(key) => found.push((key, value.text.as_str())),
                Err(_) if value.meant => return Err(format!("there is no option {name}")),
                // The environment holds what other tools understand.
                Err(_) => {}
            }
        }
        Ok(found)
    }
}

impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use object_store::aws::AmazonS3ConfigKey;

    use super::BucketOptions;

    #[test]
    fn options_come_from_variables_and_keep_secrets() {
        let variables = [
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_PAGER", "less"),
            ("AWS_SESSION_TOKEN", ""),
            ("HOME", "/root"),
        ];
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = BucketOptions::from_variables(owned);
        let known = options.of::<AmazonS3ConfigKey>("aws_", &[]).unwrap();
        assert_eq!(known, [(AmazonS3ConfigKey::SecretAccessKey, "hush")]);
        assert!(!format!("{options:?}").contains("hush"));
        let mistaken = options.with("aws_server_side_encrytion", "AES256");
        mistaken.of::<AmazonS3ConfigKey>("aws_", &[]).unwrap_err();
    }
}
