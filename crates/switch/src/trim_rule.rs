//! How a switch trims: as ours does, or as hardware does.

use punctual_core::{Bytes, QueueSpec, TrimModel};
use serde::{Deserialize, Serialize};

/// How a switch trims frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrimRule {
    /// The hardware that trims; our own switch if absent.
    pub profile: Option<TrimProfile>,
    /// Whether the lengths in IP and UDP headers are corrected. By default our own switch corrects
    /// them, and hardware does not.
    lengths: Option<TrimLengths>,
    /// The DSCP of frames that hardware trimmed or whose lengths are not corrected; that of control
    /// packets if absent.
    pub dscp: Option<u8>,
}

impl TrimRule {
    /// Whether the lengths in IP and UDP headers are corrected.
    pub fn lengths(&self) -> TrimLengths {
        let usual = match self.profile {
            None => TrimLengths::Fixed,
            Some(_) => TrimLengths::Unfixed,
        };
        self.lengths.unwrap_or(usual)
    }
}

/// A kind of hardware that trims packets, by the bytes of an IP packet that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrimProfile {
    /// The default of SAI, which SONiC uses: 128 bytes.
    Sai,
    /// Broadcom's: 206 bytes.
    Broadcom,
    /// NVIDIA Spectrum's: 256 bytes.
    Spectrum,
}

impl TrimProfile {
    /// Bytes left of a trimmed packet.
    pub fn bytes(self) -> Bytes {
        Bytes::new(match self {
            TrimProfile::Sai => 128,
            TrimProfile::Broadcom => 206,
            TrimProfile::Spectrum => 256,
        })
    }

    /// A queue that trims as this hardware does. Others stay as they are.
    pub(crate) fn applied_to(self, queue: QueueSpec) -> Result<QueueSpec, String> {
        let trim_to = self.bytes();
        Ok(match queue {
            QueueSpec::Trim { data, headers, mark_above: None } => {
                QueueSpec::TrimModel { model: TrimModel::Paper, data, headers, trim_to }
            }
            QueueSpec::TrimModel { model, data, headers, .. } => {
                QueueSpec::TrimModel { model, data, headers, trim_to }
            }
            QueueSpec::CutPayload { limit, trim_above, .. } => {
                QueueSpec::CutPayload { limit, trim_above, trim_to }
            }
            QueueSpec::Trim { .. } | QueueSpec::FairClasses { .. } => {
                return Err("this queue cannot trim to the size of a `trim.profile`; use kind = \
                            \"trim-model\""
                    .to_owned());
            }
            other => other,
        })
    }
}

/// What a switch does to the lengths in IP and UDP headers when it trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimLengths {
    /// It corrects them and the checksums, so that a UDP socket receives the header.
    #[default]
    Fixed,
    /// It leaves them, as many hardware switches do.
    Unfixed,
}
