//! Parameters of M-PDQ; those of PDQ apply to each subflow and to the ports.

use crate::pdq::{
    Availability, Criticality, PdqConfig, PdqVariant, RoundTrip, SUBFLOWS_MAX, pdq_config, pdq_part,
};
use crate::validated::{ConfigError, check};
use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

pdq_config! {
    /// Parameters of M-PDQ; those of PDQ apply to each subflow and to the ports.
    MpdqConfig {
        /// Number of subflows, each on its own path while there are enough. 3 (Figure 11a), 16 at
        /// most.
        subflows: u32 = 3,
    }
}

impl MpdqConfig {
    /// The parameters that it shares with PDQ.
    pub fn pdq(&self) -> PdqConfig {
        pdq_part!(self.clone())
    }

    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let n = self.subflows;
        check((1..=SUBFLOWS_MAX).contains(&n), "subflows", &n, "between 1 and 16")?;
        self.pdq().validate()
    }
}

crate::validated::validated_when_read!(MpdqConfig);
