//! The operator's program.

use windlass::prelude::*;

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let mut manager = Manager::try_default().await?;
    manager.add(guestbook::controller());
    manager.run(shutdown::signal()).await
}
