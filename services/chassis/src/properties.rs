//! librdkafka properties that the operator passes through; secrets never show in a log.

use std::fmt;
use std::str::FromStr;

/// One `name=value` for librdkafka.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    pub value: String,
}

impl Property {
    /// Whether the value must not be shown.
    pub fn is_secret(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        // `ssl.key.pem` and the keystores carry key material; `ssl.key.location` is only a path.
        ["password", "secret", "token", "jaas", ".pem", "oauthbearer.config", "sasl.username"]
            .iter()
            .any(|mark| name.contains(mark))
    }
}

impl FromStr for Property {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: what is malformed may still be a secret.
        let (name, value) = text.split_once('=').ok_or("a Kafka property is written name=value")?;
        let name = name.trim();
        if name.is_empty() {
            return Err("a Kafka property needs a name before `=`".to_owned());
        }
        Ok(Self { name: name.to_owned(), value: value.trim().to_owned() })
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.is_secret() { "(redacted)" } else { &self.value };
        write!(f, "{}={value}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_equal_signs() {
        let property: Property = "sasl.jaas=a=b=c".parse().unwrap();
        assert_eq!((property.name.as_str(), property.value.as_str()), ("sasl.jaas", "a=b=c"));
    }

    #[test]
    fn a_secret_never_prints() {
        for name in ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "ssl.key.pem"] {
            let property: Property = format!("{name}=canary").parse().unwrap();
            assert!(!format!("{property:?}").contains("canary"), "{name}");
        }
        let open: Property = "linger.ms=0".parse().unwrap();
        assert_eq!(format!("{open:?}"), "linger.ms=0");
    }

    #[test]
    fn a_malformed_property_is_refused_without_repeating_it() {
        let error = "canary".parse::<Property>().unwrap_err();
        assert!(!error.contains("canary"));
    }
}
