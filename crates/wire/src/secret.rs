use std::fmt;

use serde::{Deserialize, Serialize};

/// A text that must not show in logs and traces, such as a key; only ever sent on a protected channel.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
