//! The settings of refresh as the builder collects them.

use crate::clock::{Nanos, nanos};
use crate::config::RefreshSettings;
use crate::error::BuildError;
use std::time::Duration;

/// How many reloads run at once, unless the builder says otherwise: as many as a process has
/// connections to one upstream, as a rule.
const LIMIT: usize = 64;
/// How long after a failed reload the next one comes, unless the builder says otherwise.
const RETRY: Duration = Duration::from_secs(1);

/// The settings as the builder collects them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    pub after_write: Option<Duration>,
    /// Whether there is a stored loader.
    pub has_loader: bool,
    pub inline: bool,
    pub limit: usize,
    pub retry: Duration,
}

impl Default for Refresh {
    fn default() -> Self {
        Self { after_write: None, has_loader: false, inline: false, limit: LIMIT, retry: RETRY }
    }
}

impl Refresh {
    /// The settings of the cache; `None` if it has no refresh.
    ///
    /// # Errors
    /// If a setting makes no sense.
    pub(super) fn settings(
        &self,
        has_policy: bool,
        has_executor: bool,
    ) -> Result<Option<RefreshSettings>, BuildError> {
        if self.limit == 0 {
            return Err(BuildError::new("refresh_limit", "with zero, nothing is ever reloaded"));
        }
        let setting = match (self.after_write, has_policy) {
            (Some(_), _) => Some("refresh_after_write"),
            (None, true) => Some("refresh_after"),
            (None, false) => None,
        };
        if setting.is_none() && !self.has_loader {
            return Ok(None);
        }
        if let Some(setting) = setting
            && !(self.inline || has_executor)
        {
            let reason = "reloads need a place to run: set `executor` or `refresh_inline`";
            return Err(BuildError::new(setting, reason));
        }
        Ok(Some(RefreshSettings {
            after_write: self.after_write.map_or(Nanos::FOREVER, nanos),
            inline: self.inline || !has_executor,
            limit: self.limit,
            retry: nanos(self.retry),
        }))
    }
}
