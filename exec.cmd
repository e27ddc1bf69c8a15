@rem On Windows, stands for the "exec" of a POSIX shell in the script "start". The line below ends the batch file
@rem and then runs the command, so that Ctrl-C does not ask whether to terminate the batch job.
@goto #_undefined_# 2>NUL || %*
