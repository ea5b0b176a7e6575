"""The flow agent: a conversation that collects fields, asks for approval, and then acts.

``events`` its eight states, what happens to it and what it asks for · ``definition`` how another run starts it · ``memory`` what
it remembers · ``states`` what its handler is doing, and what its person is asked · ``moves`` what people say, what handlers
did, whose turn it is · ``children`` runs below it · ``requests`` what performers are given · ``table`` the machine.
"""
