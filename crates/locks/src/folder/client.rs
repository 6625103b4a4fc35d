//! The recipe of a lock of one's own: its client is a program, which no code of ours replaces.

use crate::client::client_program::ClientProgram;
use crate::error::ClientError;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use async_trait::async_trait;

#[async_trait]
impl Recipe for ClientProgram {
    fn program(&self) -> Option<&ClientProgram> {
        Some(self)
    }

    async fn connect(&self, _hello: &Hello) -> Result<Session, ClientError> {
        Err(ClientError::BadHello(format!(
            "{} has a client of its own: {}",
            self.name,
            self.command.join(" ")
        )))
    }
}
