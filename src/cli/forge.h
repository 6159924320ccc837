/*
 * forge.h - what makes sandboxes for a daemon, without a start of brig for each (private to cli/)
 *
 * A process that has loaded brig once, and forks a warden for each request: the options of "brig create",
 * as one message (proto/message.h: FORGE), answered by the manifest or by the words of an error. Many at
 * once; none is waited for. The daemon starts one and talks to it over a socket pair. It is no command for
 * people, so no help tells of it.
 *
 * The wardens have nothing of the forge (creation.h) and outlive it. They are forks of one process, so their
 * addresses are laid out alike, as those of any server's are that forks for its clients. The forge keeps
 * nothing from one request to the next: no warden has in its memory what another tenant asked for, but for
 * what is under way at the same moment.
 */
#ifndef BRIG_CLI_FORGE_H
#define BRIG_CLI_FORGE_H

/* "brig forge --socket 3" */
int forge_main(int argc, char **argv);

#endif
