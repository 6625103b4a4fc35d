//! What the recipes on etcd share: the connections to the members, and a user for each process.

use super::members::Members;
use super::sequencers::{Holders, SequencerCheck};
use super::user::User;
use crate::access::Access;
use crate::capabilities::Capabilities;
use crate::dialer::Dialer;
use crate::error::{ClientError, OptionError};
use crate::options::Options;
use crate::protocol::{Hello, Server};
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use fencepost_history::Lease;
use fencepost_history::Seed;
use fencepost_storage::Sequencers;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long members may take to log a client in before it says hello without that.
const LOGIN: Duration = Duration::from_secs(2);

/// What every lock on etcd can do: its leases are renewed, and their end is noticed.
pub(super) const LEASED: Capabilities = Capabilities {
    token: true,
    unique_value: true,
    validity: true,
    loss_notice: true,
    renewal: true,
    lease: Lease::Session,
    ..Capabilities::NONE
};

pub(super) struct EtcdRecipe {
    pub(super) check: fn(&Options) -> Result<(), OptionError>,
    /// Where it keeps its holders under keys whose create revision is the generation of their sequencers.
    pub(super) holders: Option<Holders>,
    pub(super) lock: NewLock,
}

type NewLock = fn(User, &Options) -> Box<dyn Lock>;

impl EtcdRecipe {
    pub(super) const fn new(lock: NewLock) -> EtcdRecipe {
        EtcdRecipe { check: |_| Ok(()), holders: None, lock }
    }
}

#[async_trait]
impl Recipe for EtcdRecipe {
    fn check(&self, options: &Options) -> Result<(), OptionError> {
        (self.check)(options)
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let dialer = Dialer::checked(hello).await?;
        let members = Arc::new(Members::open(&hello.servers, &hello.client, dialer)?);
        members.log_in(Instant::now() + LOGIN).await?;
        let (lock, options, seed) = (self.lock, hello.options()?, Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            let random = seed.stream(&format!("lock-{process}"));
            lock(User::new(members.clone(), notices, random), &options)
        }))
    }

    async fn sequencers(
        &self,
        servers: &[Server],
        access: Option<&Access>,
    ) -> Result<Option<Box<dyn Sequencers>>, ClientError> {
        let Some(holders) = self.holders else { return Ok(None) };
        let members = Members::open(servers, "storage", Dialer::new(access)?)?;
        Ok(Some(Box::new(SequencerCheck { holders, members })))
    }
}
