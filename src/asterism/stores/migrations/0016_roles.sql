-- A token has one or more roles, separated by commas. An approver no longer submits and commands, so who could keeps that.

UPDATE tokens SET role = 'operator,approver' WHERE role = 'approver';
